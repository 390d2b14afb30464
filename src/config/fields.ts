import * as z from 'zod';
import { limits } from '../base/limits.ts';
import { isTimezone } from '../schedule/zone.ts';

/** A secret: text that fits in a header. */
export function secret() {
  return z
    .string()
    .regex(/\S/, 'must not be blank')
    .refine((value) => value.trim() === value && value.length <= limits.tokenCharsMax, {
      error: `must be at most ${limits.tokenCharsMax} characters, without blanks around them`,
    });
}

/** A time zone by its IANA name, such as `Europe/Lisbon`. */
export function timezone() {
  return z.string().refine(isTimezone, {
    error: 'is not a time zone',
    params: { hint: 'Write an IANA name, such as Europe/Lisbon or UTC.', shown: true },
  });
}

export function hostTimezone(): string {
  return new Intl.DateTimeFormat().resolvedOptions().timeZone;
}

/** Plugin names are used in paths, URLs and tables. */
const pluginNamePattern = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/;
const commandNamePattern = /^[A-Za-z][A-Za-z0-9_-]{0,127}$/;

export function pluginName() {
  return z.string().regex(pluginNamePattern, PLUGIN_NAME_RULE);
}

export function commandName() {
  return z.string().regex(commandNamePattern, COMMAND_NAME_RULE);
}

/** All commands without a timeout of their own. */
export const ANY_COMMAND = '*';

/** The name of a command, or `*`. */
export function timedCommand() {
  return z
    .string()
    .refine(
      (name) => name === ANY_COMMAND || commandNamePattern.test(name),
      `${COMMAND_NAME_RULE}, or be "*"`,
    );
}

const PLUGIN_NAME_RULE = 'must be letters, digits, _, - and dots, and start with a letter or digit';
const COMMAND_NAME_RULE = 'must be letters, digits, _ and -, and start with a letter';
