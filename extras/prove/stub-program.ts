/**
 * Program of every stub. Its only effect is a line in the stub record, written and synced to disk at
 * its start and at its end. The checks compare the ledger with this record. In between the program
 * waits for a time that depends on its job, so that it can be killed while it runs.
 */
export const stubProgram = `import { appendFileSync, closeSync, fsyncSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
const request = JSON.parse(readFileSync(0, 'utf8'));
const { job_id, attempt, command, instance, idempotency_key } = request;
const record = (phase) => {
  const line = { phase, job_id, attempt, plugin: instance, command, idempotency_key,
    pid: process.pid, born: performance.timeOrigin, at: Date.now() };
  const file = openSync(join(import.meta.dirname, '../../record.jsonl'), 'a', 0o600);
  appendFileSync(file, JSON.stringify(line) + '\\n');
  fsyncSync(file);
  closeSync(file);
};
record('start');
const responses = JSON.parse(readFileSync(join(import.meta.dirname, 'responses.json'), 'utf8'));
const name = instance + '.' + command;
const response = responses[name + '@' + request.step_id] ?? responses[name] ?? { status: 'ok', result: 'stub' };
const digits = parseInt(job_id.replaceAll('-', '').slice(-6), 16) + attempt;
Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10 + digits % 140);
const events = response.events?.map((event) => event.dedupe_key === undefined ? event :
  { ...event, dedupe_key: (idempotency_key + ':' + event.dedupe_key).slice(0, 200) });
record('end');
process.stdout.write(JSON.stringify({ ...response, ...(events && { events }) }));
`;
