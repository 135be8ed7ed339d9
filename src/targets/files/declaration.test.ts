import { describe, expect, expectTypeOf, it } from 'vitest';
import type { TargetDeclaration } from '../target.js';
import { files, type FilesOptions, type NamesIn } from './declaration.js';

const invoice = { target: 'operational', place: 'invoice', column: 'invoice_id' };

describe('files', () => {
  it('WF-6: is data, with the whole declaration in its plan', () => {
    const declared = files({
      root: '/srv/artifacts/',
      paths: ['customers/{customerId}/', 'invoices/{invoice}.pdf'],
      locators: { invoice },
      marker: '.expunge-root',
    });
    expect(JSON.parse(JSON.stringify(declared.plan))).toEqual({
      root: '/srv/artifacts/',
      paths: [
        { path: 'customers/{customerId}/', action: 'delete' },
        { path: 'invoices/{invoice}.pdf', action: 'delete' },
      ],
      locators: { invoice },
      marker: '.expunge-root',
      encode: 'verbatim',
    });
    expect(declared).toMatchObject({
      kind: 'files',
      identifiers: ['customerId'],
      locators: { invoice },
      revokes: false,
    });
    expect(declared.open('generated-artifacts').name).toBe('generated-artifacts');
  });

  it('tells the compiler which identifiers it uses', () => {
    expectTypeOf<NamesIn<'a/{x}/{y}-b/{x}.pdf'>>().toEqualTypeOf<'x' | 'y'>();
    const declared = files({
      root: '/r',
      paths: ['customers/{customerId}/', 'i/{invoice}.pdf'],
      locators: { invoice },
    });
    expectTypeOf(declared).toEqualTypeOf<TargetDeclaration<'customerId'>>();
    const accepted: TargetDeclaration<'customerId' | 'email'> = declared;
    expect(accepted.identifiers).toEqual(['customerId']);
    // @ts-expect-error custmerId is no identifier
    const misspelt: TargetDeclaration<'customerId' | 'email'> = files({
      root: '/r',
      paths: ['customers/{custmerId}/'],
    });
    expect(misspelt.identifiers).toEqual(['custmerId']);
    // @ts-expect-error invoice is neither an identifier nor a declared locator
    const undeclared: TargetDeclaration<'customerId'> = files({ root: '/r', paths: ['{customerId}/', 'i/{invoice}'] });
    expect(undeclared.identifiers).toEqual(['customerId', 'invoice']);
    // A list that the compiler does not know is checked when the configuration is loaded.
    const computed: string[] = ['customers/{customerId}/'];
    expectTypeOf(files({ root: '/r', paths: computed })).toEqualTypeOf<TargetDeclaration>();
  });

  const path = (text: string) => ({ root: '/r', paths: [text] });
  it.each([
    [
      'a root that depends on the working directory',
      { root: 'artifacts', paths: ['{a}/'] },
      'files.root is "artifacts"',
    ],
    ['the whole machine', { root: '/srv/..', paths: ['{a}/'] }, 'a directory of its own'],
    ['no path', { root: '/r', paths: [] }, 'files.paths is []'],
    ['WF-9: a path that is the same for everybody', path('customers/'), 'would delete everybody'],
    ['an absolute path', path('/customers/{a}'), 'files.paths[0] is "/customers/{a}": a path is relative'],
    ['a path that leads out', path('../{a}/'), "no empty name, no '.' and no '..'"],
    ['an empty path', path('/'), 'relative'],
    ['an empty name', path('a//{a}'), 'no empty name'],
    ['a wildcard', path('customers/*/{a}'), 'no wildcard'],
    ['a backslash', path('customers\\{a}'), 'no wildcard, backslash'],
    ['two values in one name, which can be told apart in several ways', path('{a}-{b}/'), 'one {name} at most'],
    ['a brace that stays open', path('customers/{a'), 'one {name} at most'],
    ['braces without a name', path('customers/{}/'), 'one {name} at most'],
    ['a path twice', { root: '/r', paths: ['{a}/', '{a}/'] }, 'it lies in "{a}/" already'],
    ['a path within another', { root: '/r', paths: ['{a}/', '{a}/b.pdf'] }, 'files.paths[1] is "{a}/b.pdf"'],
    ['a marker that is a path', { ...path('{a}/'), marker: 'a/b' }, 'files.marker is "a/b"'],
    ['an unknown encoding', { ...path('{a}/'), encode: 'base64' as 'uri' }, 'files.encode is "base64"'],
    ['a locator that no path needs', { ...path('{a}/'), locators: { invoice } }, 'files.locators.invoice is "unused"'],
    [
      'two locators in one path',
      { ...path('{invoice}/{order}'), locators: { invoice, order: invoice } },
      'one locator at most',
    ],
  ])('refuses %s', (_, options, message) => {
    expect(() => files(options as FilesOptions)).toThrow(
      expect.objectContaining({ code: 'TARGET_DECLARATION', message: expect.stringContaining(message) as string }),
    );
  });
});
