/** Spans are sent to a collector in batches, with a limit, in the background. */
import { expect, onTestFinished, test } from 'vitest';
import type { Span } from '../../src/insight/tracer.service.ts';
import { makeTracer } from '../../src/insight/tracer.service.ts';
import { collectLog, eventually } from '../support/instance.ts';
import { startWebServer } from '../support/web-server.ts';

function span(index: number): Span {
  const spanId = index.toString(16).padStart(16, '0');
  const traceId = 'a'.repeat(32);
  return { traceId, spanId, name: 'work', startMs: 1.4, endMs: 2, attributes: { n: index } };
}

const service = () => ({ name: 'here', version: '1' });

test('spans that the collector refuses wait, up to a limit, and are sent later', async () => {
  let status = 503;
  const collector = await startWebServer((_, response) => {
    response.writeHead(status).end('{}');
  });
  const { log, records } = collectLog();
  const otlp = { endpoint: collector.url, headers: {} };
  const tracer = makeTracer({ config: () => otlp, service, log });
  for (let index = 0; index < 10_000; index += 1) tracer.add([span(index)]);
  await tracer.start();
  onTestFinished(() => tracer.stop());
  await eventually('a second batch is refused', () => collector.received.length > 1);
  expect(records.filter(({ message }) => message === 'traces could not be sent')).toHaveLength(1);
  collector.received.splice(0);
  status = 200;
  // Not by stopping, which gives up after two seconds.
  await eventually('all batches are sent', () => collector.received.length >= 16);
  const spans = collector.received.map(
    ({ body }) => (JSON.parse(body) as ExportRequest).resourceSpans[0],
  );
  const sent = spans.flatMap((one) => one?.scopeSpans[0]?.spans ?? []);
  expect(sent).toHaveLength(8192);
  // The oldest spans were dropped.
  expect(sent[0]?.spanId).toBe(span(10_000 - 8192).spanId);
  expect(sent[0]).toMatchObject({
    startTimeUnixNano: '1000000',
    endTimeUnixNano: '2000000',
    attributes: [{ key: 'n', value: { intValue: '1808' } }],
    status: { code: 1 },
  });
  expect(collector.received).toHaveLength(16);
});

interface ExportRequest {
  readonly resourceSpans: readonly {
    readonly scopeSpans: readonly { readonly spans: readonly { readonly spanId: string }[] }[];
  }[];
}

test('spans that the collector will never accept are dropped', async () => {
  const collector = await startWebServer((_, response) => {
    response.writeHead(400).end();
  });
  const { log } = collectLog();
  const otlp = { endpoint: collector.url, headers: {} };
  const tracer = makeTracer({ config: () => otlp, service, log });
  tracer.add([span(1)]);
  await tracer.stop();
  await tracer.stop();
  expect(collector.received).toHaveLength(1);
});

test('spans are not kept without a collector', async () => {
  const { log } = collectLog();
  const tracer = makeTracer({ config: () => undefined, service, log });
  tracer.add([span(1)]);
  expect(tracer.isOn).toBe(false);
  await tracer.stop();
});
