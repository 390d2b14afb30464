import type { Arm } from '../frame.ts';
import { buildNative, canBuildNative } from '../native.ts';
import { canMakePlugin, makePlugin, type PluginKind } from '../plugins.ts';
import { runProgram } from '../program.ts';
import { request, settings } from '../settings.ts';

export default [
  limitArm('C limit, 8 slots', 'static', 8),
  limitArm('C limit, 16 slots', 'static', 16),
  limitArm('C limit, python, 4 slots', 'python', 4),
];

/** Bare posix_spawn: nothing durable, nothing but processes. */
function limitArm(name: string, kind: PluginKind, slots: number): Arm {
  let command = '';
  let entrypoint = '';
  return {
    name,
    async available() {
      const native = await canBuildNative();
      return native === true ? await canMakePlugin(kind) : native;
    },
    async prepare() {
      command = await buildNative('limit');
      ({ entrypoint } = await makePlugin(kind));
    },
    async run() {
      const args = [String(slots), String(settings.burstSeconds), entrypoint];
      return await runProgram(command, args, { input: request });
    },
  };
}
