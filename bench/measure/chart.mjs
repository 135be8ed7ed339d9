/** A bar chart as SVG: medians, with the lowest and the highest round as a line. */

const WIDTH = 760;
const LABEL = 270;
const ROW = 34;

/** @param rows - `{ name, rate, lowest, highest }`. */
export function barChart(title, rows) {
  const largest = Math.max(...rows.map(({ highest }) => highest));
  const x = (value) => LABEL + (value / largest) * (WIDTH - LABEL - 90);
  const height = rows.length * ROW + 48;
  const bars = rows.map((row, index) => bar(row, 40 + index * ROW, x)).join('\n');
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" font-family="sans-serif" font-size="13">
  <rect width="${WIDTH}" height="${height}" fill="#ffffff"/>
  <text x="12" y="22" font-weight="bold" fill="#222222">${escape(title)}</text>
${bars}
</svg>
`;
}

function bar({ name, rate, lowest, highest }, y, x) {
  const middle = y + 11;
  return `  <text x="12" y="${y + 15}" fill="#222222">${escape(name)}</text>
  <rect x="${LABEL}" y="${y}" width="${(x(rate) - LABEL).toFixed(1)}" height="22" fill="${name.startsWith('Expunge') ? '#2f6f4f' : '#9aa7b1'}"/>
  <line x1="${x(lowest).toFixed(1)}" x2="${x(highest).toFixed(1)}" y1="${middle}" y2="${middle}" stroke="#222222" stroke-width="1.5"/>
  <text x="${(x(highest) + 8).toFixed(1)}" y="${y + 15}" fill="#222222">${Math.round(rate).toLocaleString('en')}</text>`;
}

function escape(text) {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
}
