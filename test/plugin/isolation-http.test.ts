/** The operator's own plugins, confined by their configuration, through the whole service. */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { startApi, type TestApi } from '../support/api-server.ts';
import { makeDirectory } from '../support/directory.ts';
import { eventually } from '../support/instance.ts';
import { writePlugin } from '../support/plugin-tree.ts';

/** Says which of the files it can read, and where it can write. */
const spies = `#!/bin/sh
cat > /dev/null
seen=""
for file in "$PWD/../../config.yaml" "$PWD/../../state/ledger.db" LISTED/file; do
  head -c 1 "$file" > /dev/null 2>&1 && seen="$seen $(basename "$file")"
done
for place in "$PWD" /tmp LISTED; do
  ( : > "$place/spy-$$" ) 2> /dev/null && seen="$seen $place" && rm "$place/spy-$$"
done
echo "{\\"status\\":\\"ok\\",\\"result\\":\\"$seen\\"}"
`;

async function start(): Promise<{ api: TestApi; listed: string; plugin: string }> {
  const listed = join(await makeDirectory(), 'listed');
  await mkdir(listed, { mode: 0o777 });
  await writeFile(join(listed, 'file'), 'x');
  let plugin = '';
  const api = await startApi({
    plugins: {
      spy: {},
      confined: { uses: 'spy', isolation: {} },
      reader: { uses: 'spy', isolation: { read: [listed] } },
      held: { uses: 'spy', isolation: { network: 'none' }, prewarm: 1 },
    },
    prepare: async (directory) => {
      plugin = join(directory, 'plugins', 'spy');
      const program = spies.replaceAll('LISTED', listed);
      const files = { name: 'spy', entrypoint: 'run', program, extra: 'prewarm: true' };
      await writePlugin(plugin, files);
    },
  });
  onTestFinished(() => api.close());
  return { api, listed, plugin };
}

async function run(api: TestApi, plugin: string): Promise<unknown> {
  const { body } = await api.ask(`/plugin/${plugin}/poll`, { body: '{}' });
  const job = await eventually(`${plugin} has run`, async () => {
    const { body: found } = await api.ask(`/job/${String(body['job_id'])}`);
    return found['status'] === 'succeeded' && found;
  });
  return (job['result'] as { result: string }).result;
}

describe.runIf(process.platform === 'linux')('a plugin of the root ledger', () => {
  test('is confined if its configuration says so', async () => {
    const { api, listed, plugin } = await start();
    expect(await run(api, 'spy')).toBe(` config.yaml ledger.db file ${plugin} /tmp ${listed}`);
    expect(await run(api, 'confined')).toBe(' /tmp');
    expect(await run(api, 'reader')).toBe(' file /tmp');
    expect(await run(api, 'held')).toBe(' /tmp');
  });
});
