/** The service opens an incident once for each problem, and closes it when the problem is over. */
import { expect, test } from 'vitest';
import { limits } from '../../src/base/limits.ts';
import { eventually, makePlace } from '../support/instance.ts';
import { python } from '../support/plugin-program.ts';

const moody = python(`
if payload.get("good"):
    ok("fine")
fail("not today", retry=False)`);
const teller = python(
  'note(request["event"]["type"], payload["kind"], payload["key"]); ok("told")',
);

test('a streak opens an incident, a route handles its signal, and a success closes it', async () => {
  const place = await makePlace({
    plugins: { moody: { program: moody }, teller: { program: teller } },
    routes: [
      { event_type: 'incident.opened', to: 'teller' },
      { event_type: 'incident.closed', to: 'teller' },
    ],
  });
  const { run, ledger, engine } = await place.start();
  for (let count = 0; count < limits.incident.streak; count += 1) await run('moody');
  const [incident] = await eventually('it is open', async () => {
    const found = await ledger.incidents.list({ isOpen: true, limit: 9 });
    return found.length > 0 && found;
  });
  expect(incident).toMatchObject({
    kind: 'failure_streak',
    key: 'moody/poll',
    count: limits.incident.streak,
  });
  expect(JSON.parse(incident?.detail ?? '')).toMatchObject({ error: 'not today', failures: 5 });
  // The consequences of two signals may run side by side.
  await eventually('it was reported', async () => (await place.notes()).length === 1);
  await run('moody', { good: true });
  engine.lookForIncidents();
  await eventually(
    'it is closed',
    async () => (await ledger.incidents.find(incident?.id ?? ''))?.closedAt !== null,
  );
  await eventually('both were reported', async () => (await place.notes()).length === 2);
  expect(await place.notes()).toEqual([
    'incident.opened failure_streak moody/poll',
    'incident.closed failure_streak moody/poll',
  ]);
});

test('a handler of incidents that itself fails makes one more incident, and no storm', async () => {
  const place = await makePlace({
    plugins: { moody: { program: moody }, deaf: { program: python('fail("no", retry=False)') } },
    routes: [{ event_type: 'incident.opened', to: 'deaf' }],
  });
  const { run, ledger, submit } = await place.start();
  for (let count = 0; count < limits.incident.streak; count += 1) await run('moody');
  await eventually('its handler failed', async () => {
    return (await ledger.jobs.list({ plugin: 'deaf', status: ['failed'], limit: 9 })).length === 1;
  });
  for (let count = 0; count < limits.incident.streak; count += 1)
    await submit('deaf', {}, { command: 'handle' });
  await eventually('the second is open', async () => {
    return (await ledger.incidents.list({ isOpen: true, limit: 9 })).length === 2;
  });
  const signals = await ledger.signals.list({ type: 'incident.opened', limit: 9 });
  expect(signals).toHaveLength(2);
});

test('failures before a restart count, and what is open is closed after it', async () => {
  const place = await makePlace({ plugins: { moody: { program: moody } } });
  const before = await place.start();
  for (let count = 1; count < limits.incident.streak; count += 1) await before.run('moody');
  expect(await before.ledger.incidents.list({ limit: 9 })).toEqual([]);
  await before.close();
  const { run, ledger } = await place.start();
  await run('moody');
  const [incident] = await eventually('it is open', async () => {
    const found = await ledger.incidents.list({ isOpen: true, limit: 9 });
    return found.length > 0 && found;
  });
  expect(incident?.count).toBe(limits.incident.streak);
  await run('moody', { good: true });
  await eventually(
    'it is closed at once',
    async () => (await ledger.incidents.find(incident?.id ?? ''))?.closedAt !== null,
  );
});
