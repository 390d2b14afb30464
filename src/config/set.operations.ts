import * as z from 'zod';
import { DuctileError } from '../base/errors.ts';
import { parseAddress, valueAt } from './address.ts';
import { applyEdit, parseValue, planEdit, planRemoval } from './edit.ts';
import type { Edit } from './edit.ts';
import type { Path } from './document.ts';
import { redact } from './effective.ts';
import type { Finding } from './findings.ts';
import { readConfig } from './load.ts';
import type { LoadOptions, Reading } from './load.ts';
import { configInvalid, sentence } from './problem.ts';
import { address, FILES_HERE } from './operations.ts';
import type { Context } from '../operation/context.ts';
import { defineOperation } from '../operation/define.ts';
import type { JsonOutput } from '../operation/define.ts';
import { examine, loadOptions } from '../insight/doctor.operations.ts';
import { findingsShape, showFindings } from '../insight/findings.service.ts';

const apply = z
  .boolean()
  .optional()
  .describe('do it; without --apply or --dry-run the command is refused');

const changed = z.object({
  key: z.string(),
  before: z.unknown(),
  after: z.unknown().describe('what is written there now; absent when nothing is'),
  file: z.string(),
  backup: z.string(),
  locked: z.boolean().describe('whether the lock of the file was renewed'),
  validation: findingsShape,
});

export const setConfig = defineOperation({
  name: 'config.set',
  summary: 'Change one key in its file; comments stay, and an invalid result is refused.',
  effect: 'write',
  isForRoot: true,
  scope: 'config:rw',
  needs: 'files',
  input: z.strictObject({
    assignment: z
      .string()
      .regex(/^[^=]+=/, 'must be key=value')
      .describe('key=value, such as plugin:echo.enabled=false'),
    apply,
  }),
  output: changed,
  errors: ['CONFIG_INVALID', 'CONFIG_NOT_FOUND', 'INPUT_INVALID'],
  http: { absent: FILES_HERE },
  cli: {
    positionals: ['assignment'],
    examples: [
      'ductile config set service.max_workers=4 --dry-run',
      'ductile config set plugin:echo.enabled=false --apply',
    ],
    exitCode: judge,
  },
  run(context, { assignment, apply: isMeant }) {
    return Promise.resolve(change(planSet(context, assignment), isMeant));
  },
  plan: (context, { assignment }) => Promise.resolve(describe(planSet(context, assignment))),
});

export const unsetConfig = defineOperation({
  name: 'config.unset',
  summary: 'Take one key, or one entry of a list, out of its file.',
  effect: 'write',
  isForRoot: true,
  scope: 'config:rw',
  needs: 'files',
  input: z.strictObject({ path: address, apply }),
  output: changed,
  errors: ['CONFIG_INVALID', 'CONFIG_NOT_FOUND', 'INPUT_INVALID'],
  http: { absent: FILES_HERE },
  cli: {
    positionals: ['path'],
    examples: [
      'ductile config unset service.max_workers --dry-run',
      'ductile config unset plugin:echo.schedules.0 --apply',
    ],
    exitCode: judge,
  },
  run(context, { path, apply: isMeant }) {
    return Promise.resolve(change(planUnset(context, path), isMeant));
  },
  plan: (context, { path }) => Promise.resolve(describe(planUnset(context, path))),
});

/** Done, and there is something to look at: another code than that of a refusal. */
function judge({ validation }: JsonOutput): number {
  const { errors, warnings } = findingsShape.parse(validation);
  return errors + warnings === 0 ? 0 : 2;
}

interface Planned {
  readonly edit: Edit;
  readonly reading: Reading;
  readonly options: LoadOptions;
  /** Without secrets; undefined where nothing is written. */
  readonly before: unknown;
  readonly after: unknown;
}

function change(
  { edit, reading, options, before, after }: Planned,
  isMeant = false,
): z.output<typeof changed> {
  if (!isMeant) {
    throw new DuctileError('INPUT_INVALID', 'add --apply to do it, or --dry-run to see it', {
      place: 'apply',
      hint: 'Nothing was changed.',
    });
  }
  const applied = applyEdit(edit, reading, options, new Date().toISOString());
  const validation = showFindings(examine(readConfig(options)));
  return { key: edit.key, before, after, file: edit.file, ...applied, validation };
}

function describe({ edit, before, after }: Planned): string[] {
  const [was, is] = [before, after].map((value) => JSON.stringify(value) ?? 'not set');
  return [`${edit.key} in ${edit.file} would change from ${was} to ${is}.`];
}

function planSet(context: Context, assignment: string): Planned {
  const at = assignment.indexOf('=');
  const value = parseValue(assignment.slice(at + 1));
  return planned(context, assignment.slice(0, at), (reading, path, options) =>
    planEdit(reading, path, value, options),
  );
}

function planUnset(context: Context, path: string): Planned {
  const made = planned(context, path, planRemoval);
  // What stands at the place of an entry of a list afterwards is another one.
  return /\[\d+\]$/.test(made.edit.key) ? { ...made, after: undefined } : made;
}

function planned(
  context: Context,
  written: string,
  plan: (reading: Reading, path: Path, options: LoadOptions) => Edit,
): Planned {
  const options = loadOptions(context);
  const reading = readConfig(options);
  const path = parseAddress(written, reading.document.value);
  const edit = plan(reading, path, options);
  const known = new Set(listErrors(reading));
  const faults = examine(edit.reading).filter(
    (finding) => isError(finding) && !known.has(sentence(finding)),
  );
  if (faults.length > 0) throw configInvalid(faults);
  const show = ({ document }: Reading): unknown => {
    const value = valueAt(document.value, path);
    return value === undefined ? undefined : redact(value, path);
  };
  return { edit, reading, options, before: show(reading), after: show(edit.reading) };
}

/** What was wrong before keeps nobody from changing something else; only its place may move. */
function listErrors(reading: Reading): string[] {
  return examine(reading).filter(isError).map(sentence);
}

function isError({ severity, category }: Finding): boolean {
  return severity === 'error' && category !== 'integrity';
}
