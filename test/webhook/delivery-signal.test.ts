/**
 * A signal with a webhook as its source was delivered to it: no caller can report under its name.
 */
import { expect, onTestFinished, test } from 'vitest';
import { openAttackedService } from '../support/webhook-attacks.ts';
import { databases } from '../support/instance.ts';

const endpoint = { path: '/in', plugin: 'echo', secret_ref: 'theirs', signature_header: 'x-sig' };

test.each(databases)('a delivery cannot be reported before it comes, on %s', async (database) => {
  const at = await openAttackedService({
    database,
    webhooks: { listen: '127.0.0.1:0', endpoints: [endpoint] },
    tokens: [{ name: 'theirs', key: 'a secret of theirs' }],
    routes: [{ from: 'webhook:gl', event_type: 'webhook.received', to: 'sleeper' }],
  });
  onTestFinished(() => at.api.close());
  const secret = await at.open('gl', { plugin: 'echo', command: 'handle', auth_mode: 'gitlab' });
  const report = { type: 'webhook.received', source: 'webhook:gl', source_event_id: 'd-1' };
  const post = (path: string, sent: object) => at.api.ask(path, { body: JSON.stringify(sent) });
  const refused = { status: 400, body: { code: 'INPUT_INVALID', place: 'source' } };
  expect(await post('/signals', report)).toMatchObject(refused);
  expect(await post('/signals?dry_run=true', report)).toMatchObject(refused);
  expect(await post('/signals', { ...report, source: 'webhook:/in' })).toMatchObject(refused);
  const many = await post('/signals/batch', { signals: [report] });
  expect(many).toMatchObject({ status: 400, body: { place: 'signals[0].source' } });
  const proof = [
    ['x-gitlab-token', secret],
    ['x-gitlab-event-uuid', 'd-1'],
  ] as const;
  expect((await at.post('/hooks/gl', proof, '{"message":"hi"}')).status).toBe(202);
  // A relay may report what reached it elsewhere.
  expect((await post('/signals', { ...report, source: 'webhook:slack' })).status).toBe(201);
});
