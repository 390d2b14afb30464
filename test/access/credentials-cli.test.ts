/** Secrets on the command line: through standard input or a prompt, never as an argument. */
import { noRules } from '../../src/ledger/rules.ts';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { cliHost } from '../../src/app/cli-host.ts';
import type { CliIo } from '../../src/cli/host.ts';
import { openLedger } from '../../src/ledger/open.ts';
import { makeDirectory } from '../support/directory.ts';
import { run } from '../support/fake-cli.ts';
import { dumpLedger, findLeaks } from '../support/leak-search.ts';

const value = 'Pl4nted-value-0123456789';

async function* typed(...chunks: string[]): AsyncGenerator<string> {
  for (const chunk of chunks) yield await Promise.resolve(chunk);
}

const answer = { credential_id: 'c1', name: 'api', created: true, expires_at: null };

describe('`credential set`', () => {
  test.each([
    ['as it is', [value], value],
    ['without the newline at its end', [value.slice(0, 4), `${value.slice(4)}\n`], value],
    ['with what is within it', ['line one\nline two\r\n'], 'line one\nline two'],
  ])('takes the value from standard input %s', async (_, chunks, expected) => {
    const argv = ['credential', 'set', 'api', '--expires', '90d'];
    const { code, calls, out } = await run(argv, { answer, io: { stdin: typed(...chunks) } });
    expect(code).toBe(0);
    expect(calls).toEqual([['credential.set', { name: 'api', value: expected, expires: '90d' }]]);
    expect(out).not.toContain(value);
  });

  test('asks a person for it without showing it, and minds what was erased', async () => {
    const hidden: boolean[] = [];
    const io: Partial<CliIo> = {
      stdin: typed('abX', '\u007f', 'cdef', '\r', 'not part of it'),
      isInTTY: true,
      setHidden: (isHidden) => void hidden.push(isHidden),
    };
    const { calls, out, err } = await run(['credential', 'set', 'api'], { answer, io });
    expect(calls).toEqual([['credential.set', { name: 'api', value: 'abcdef' }]]);
    expect(hidden).toEqual([true, false]);
    expect(err).toContain('value (not shown): ');
    expect(out + err).not.toContain('abc');
  });

  test('does nothing when none is given, and knows no argument for it', async () => {
    const interrupted: Partial<CliIo> = { stdin: typed('ab\u0003'), isInTTY: true };
    expect(await run(['credential', 'set', 'api'], { io: interrupted })).toMatchObject({
      code: 2,
      calls: [],
    });
    expect(await run(['credential', 'set', 'api'])).toMatchObject({ code: 2, calls: [] });
    const { code, calls, err } = await run(['credential', 'set', 'api', '--value', value]);
    expect([code, calls]).toEqual([2, []]);
    expect(err).not.toContain(value);
    const extra = await run(['credential', 'set', 'api', value], {
      io: { stdin: typed('other-one') },
    });
    expect([extra.code, extra.calls]).toEqual([2, []]);
    expect(extra.err).not.toContain(value);
  });
});

describe('without a server', () => {
  test('a credential is set, listed, sealed again and deleted, and its value is nowhere', async () => {
    const directory = await makeDirectory();
    mkdirSync(join(directory, 'plugins'));
    const config = 'plugin_roots: [./plugins]\nstate:\n  path: ./data/state.db\n';
    writeFileSync(join(directory, 'config.yaml'), config);
    const ductile = (...argv: string[]) =>
      run([...argv, '--config', directory], {
        host: { ...cliHost },
        io: { stdin: typed(`${value}\n`) },
      });
    const outputs = [
      await ductile('credential', 'set', 'api', '--provider', 'github', '--dry-run'),
      await ductile('credential', 'set', 'api', '--provider', 'github'),
      await ductile('credential', 'list'),
      await ductile('credential', 'show', 'api', '--json'),
      await ductile('credential', 'rotate-key', '--dry-run'),
      await ductile('credential', 'rotate-key'),
    ];
    expect(outputs.map(({ code }) => code)).toEqual([0, 0, 0, 0, 0, 0]);
    expect(outputs[2]?.out).toMatch(/api +github +active/);
    const ledger = await openLedger(
      { kind: 'sqlite', path: join(directory, 'data', 'state.db') },
      noRules,
    );
    const sinks = { ...(await dumpLedger(ledger)), told: JSON.stringify(outputs) };
    await ledger.close();
    expect(findLeaks(sinks, [value])).toEqual([]);
    expect((await ductile('credential', 'delete', 'api')).code).toBe(0);
    expect((await ductile('credential', 'show', 'api')).code).toBe(1);
  });
});
