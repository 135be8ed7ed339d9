/** Plain JSON, as PostgreSQL's jsonb and RFC 8785 understand it. */
export type JsonValue = string | number | boolean | null | readonly JsonValue[] | JsonObject;

export interface JsonObject {
  readonly [key: string]: JsonValue;
}
