import * as z from 'zod';
import { section, text } from '../base/fields.ts';
import { read } from '../pipeline/language/entry-fields.ts';
import { parseTemplate, type Template } from '../pipeline/language/template.ts';

/** A signal that asks for a directive, on behalf of the installation that brought it. */
export interface HandlerConfig {
  /** `<slug>/<place>`; with the signal it makes the key of what is asked for. */
  readonly name: string;
  /** The exact type of the signals. */
  readonly on: string;
  /** Only signals of this sender. */
  readonly from: string | undefined;
  /** The type of the directive. */
  readonly directive: string;
  readonly params: Template;
  readonly installation: { readonly id: string; readonly slug: string; readonly version: string };
  readonly place: string;
}

const template = read((value) => {
  const parsed = parseTemplate(value, ['payload']);
  return parsed.ok ? { value: parsed.template } : parsed;
});

export const handlerSchema = section({
  on: text(),
  from: text().optional(),
  directive: z.string().regex(/^[a-z]+\.[a-z_]+$/, 'must be the type of a directive'),
  params: template.default({ value: {} }),
});

export type ParsedHandler = z.output<typeof handlerSchema>;
