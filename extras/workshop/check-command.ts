import { formatDuration } from '../../src/base/quantity.ts';
import { isObject } from '../../src/base/json.ts';
import type { ManifestCommand } from '../../src/plugin/manifest.ts';
import { findMismatch } from '../../src/plugin/payload.ts';
import type { PluginEvent } from '../../src/plugin/response.ts';
import type { TestReply, TestBench } from './test-bench.ts';
import { explain } from './finding.ts';
import type { Finding } from './finding.ts';

/** Runs a command with its example and with an empty payload, and checks the responses. */
export async function checkCommand(
  bench: TestBench,
  command: ManifestCommand,
  isNamed: boolean,
): Promise<Finding[]> {
  const { name } = command;
  const { payload } = bench.exampleOf(name);
  const first = await bench.send(name);
  const findings = await checkReply(first, command, isNamed);
  if (Object.keys(payload).length === 0 || name === 'health') return findings;
  const { reply, end } = await bench.send(name, { with: { payload: {} } });
  const check = 'empty payload';
  if (reply.kind === 'ok' || reply.kind === 'error') {
    const seen = reply.kind === 'ok' ? 'returns ok' : `returns an error: ${reply.message}`;
    return [...findings, { check, command: name, verdict: 'passed', seen }];
  }
  return [...findings, { check, command: name, verdict: 'failed', ...explain(reply, end) }];
}

async function checkReply(
  { reply, end }: TestReply,
  command: ManifestCommand,
  isNamed: boolean,
): Promise<Finding[]> {
  const head = { check: 'response', command: command.name };
  const duration = formatDuration(Math.round(end.runMs));
  if (reply.kind === 'error') {
    return [
      {
        ...head,
        verdict: isNamed || command.name === 'health' ? 'failed' : 'warning',
        seen: `returns an error in ${duration}: ${reply.message}`,
        means: reply.retry ? 'Ductile would retry the job.' : 'The job would fail without a retry.',
        mend:
          'Give the command its input with --payload, --settings, ' +
          `or examples/${command.name}.json in the directory of the plugin.`,
      },
    ];
  }
  if (reply.kind !== 'ok') return [{ ...head, verdict: 'failed', ...explain(reply, end) }];
  const passed: Finding = {
    ...head,
    verdict: 'passed',
    seen: `responds in ${duration}: ${reply.result}`,
  };
  return [passed, ...(await checkEvents(reply.events, command))];
}

/** Compares events with the manifest, which other plugins, pipelines and agents rely on. */
async function checkEvents(
  events: readonly PluginEvent[],
  { name, outputSchema, values }: ManifestCommand,
): Promise<Finding[]> {
  const declared = values.emit.map(({ event }) => event);
  const findings: Finding[] = [];
  const head = { check: 'events', command: name, verdict: 'failed' as const };
  for (const type of new Set(events.map((event) => event.type))) {
    if (declared.length === 0 || declared.includes(type)) continue;
    findings.push({
      ...head,
      seen: `emits ${type}, and the manifest declares ${declared.join(', ')}`,
      means: 'It becomes a signal, but readers of the manifest do not expect it.',
      mend: `Add it to commands.${name}.values.emit, or emit a declared event.`,
    });
  }
  for (const { type, payload } of outputSchema === undefined ? [] : events) {
    const what = `output_schema of ${name}`;
    const mismatch = await findMismatch(
      what,
      outputSchema ?? {},
      isObject(payload) ? payload : {},
      type,
    );
    if (mismatch === undefined) continue;
    findings.push({
      ...head,
      check: 'output',
      seen: `${mismatch.place} ${mismatch.message}`,
      means: 'Handlers of the event, and agents that read the schema, get unexpected data.',
      mend: `Correct the payload of ${type}, or commands.${name}.output_schema.`,
    });
    break;
  }
  return findings;
}
