/**
 * Load generator in its own process: each connection repeats its request after the response. It parses
 * as little as possible of a response, to leave the CPU to the service.
 */
import { connect } from 'node:net';
import { cpus } from 'node:os';
import { z } from 'zod';
import { measure, percentile, round } from './harness.ts';

const shape = z.object({
  port: z.number(),
  connections: z.number(),
  warmUpSeconds: z.number(),
  /** Minimum number of connections for the warm-up, because one alone is too slow. */
  warmUpConnections: z.number().default(1),
  seconds: z.number(),
  path: z.string(),
  /** Name and value of the header with the proof. */
  proof: z.tuple([z.string(), z.string()]),
  body: z.string(),
  accept: z.string().default('application/json'),
  /** Expected status of every response. */
  status: z.number().default(202),
});

await measure(shape, async ({ port, connections, seconds, ...options }) => {
  const request = Buffer.from(
    `POST ${options.path} HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\n${options.proof.join(': ')}\r\n` +
      `accept: ${options.accept}\r\ncontent-type: application/json\r\n` +
      `content-length: ${Buffer.byteLength(options.body)}\r\n\r\n${options.body}`,
  );
  const good = Buffer.from(`HTTP/1.1 ${options.status}`);
  const driveAll = async (count: number, forSeconds: number): Promise<number[]> => {
    const latencies: number[] = [];
    const endAt = performance.now() + forSeconds * 1000;
    const all = Array.from({ length: count }, () =>
      drive({ port, request, good, endAt, latencies }),
    );
    await Promise.all(all);
    return latencies;
  };
  await driveAll(Math.max(connections, options.warmUpConnections), options.warmUpSeconds);
  const busyBefore = readBusyMs();
  const latencies = await driveAll(connections, seconds);
  const busyMs = readBusyMs() - busyBefore;
  return {
    jobs: latencies.length,
    rate: round(latencies.length / seconds),
    p50Ms: percentile(latencies, 0.5),
    p99Ms: percentile(latencies, 0.99),
    cpuMs: Math.round((1000 * busyMs) / latencies.length) / 1000,
  };
});

/** Reads the CPU time of the whole machine. */
function readBusyMs(): number {
  const times = cpus().map((cpu) => cpu.times);
  return times.reduce((sum, { user, nice, sys, irq }) => sum + user + nice + sys + irq, 0);
}

interface Drive {
  readonly port: number;
  readonly request: Buffer;
  /** Expected start of every response. */
  readonly good: Buffer;
  readonly endAt: number;
  readonly latencies: number[];
}

function drive({ port, request, good, endAt, latencies }: Drive): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1');
    let sentAt = 0;
    let answer = Buffer.alloc(0);
    const send = (): void => {
      sentAt = performance.now();
      socket.write(request);
    };
    socket.setNoDelay(true).once('connect', send).once('error', reject);
    socket.on('data', (chunk) => {
      answer = answer.length === 0 ? chunk : Buffer.concat([answer, chunk]);
      if (!isWhole(answer)) return;
      if (!answer.subarray(0, good.length).equals(good)) {
        reject(new Error(answer.toString('utf8', 0, 300)));
        return;
      }
      answer = Buffer.alloc(0);
      const now = performance.now();
      if (now <= endAt) latencies.push(now - sentAt);
      if (now < endAt) {
        send();
        return;
      }
      socket.destroy();
      resolve();
    });
  });
}

/** True if the response is complete: it ends with a JSON object and a line end, unlike any header. */
function isWhole(answer: Buffer): boolean {
  return answer.at(-1) === 0x0a && answer.at(-2) === 0x7d;
}
