#!/usr/bin/env node
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { Failure, makeEvent, messageOf, runPlugin } from '../typescript/ductile-plugin.ts';
import type { Answer, Fields, Request } from '../typescript/ductile-plugin.ts';

await runPlugin({ poll, handle, health });

/** Runs on a schedule. state_updates is the state of the next poll. */
async function poll({ config, state, log }: Request): Promise<Answer> {
  const path = pathOf(config);
  const bytes = await readFile(path).catch((thrown: unknown) => {
    throw new Failure(`cannot read ${path}: ${messageOf(thrown)}`, true);
  });
  const seen = createHash('sha256').update(bytes).digest('hex');
  log.info(`read ${bytes.length} bytes`);
  if (state['seen'] === seen) return { result: `${path} is as it was` };
  const events = [makeEvent('your-plugin.changed', { path })];
  return { result: `${path} changed`, events, state_updates: { seen } };
}

/** Runs for an event, a call or a step. Send idempotencyKey along with whatever you write. */
function handle({ config, payload }: Request): Answer {
  const name = payload.text('name');
  if (name === undefined) throw payload.refuse('name', 'is missing');
  const text = `${greetingOf(config)}, ${name}`;
  return { result: text, events: [makeEvent('your-plugin.greeted', { text })] };
}

function health({ config }: Request): Answer {
  return { result: `greets with ${greetingOf(config)}, looks at ${pathOf(config)}` };
}

function greetingOf(config: Fields): string {
  return config.text('greeting') ?? 'Hello';
}

/** Relative to the plugin's directory, where it runs. */
function pathOf(config: Fields): string {
  return config.text('path') ?? 'README.md';
}
