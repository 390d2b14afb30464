import { DuctileError } from '../base/errors.ts';
import type { Config } from '../config/config.ts';
import { suggest } from '../config/nearest.ts';
import type { Ledger } from '../ledger/ledger.ts';

export interface ScheduleName {
  readonly plugin: string;
  readonly scheduleId: string;
}

/** What to say of a schedule that is not on the ledger. */
export async function scheduleNotFound(
  name: ScheduleName,
  config: Config,
  ledger: Pick<Ledger, 'schedules'>,
): Promise<DuctileError> {
  const { plugin, scheduleId } = name;
  const message = `there is no schedule ${plugin}/${scheduleId}`;
  if (isDeclared(name, config)) {
    return new DuctileError('SCHEDULE_NOT_FOUND', `${message} on the ledger yet`, {
      hint: 'It is in the configuration, and begins when the service starts: `ductile system start`.',
    });
  }
  const ids = (await ledger.schedules({ plugin, limit: TOLD_MAX })).map((one) => one.scheduleId);
  const hint =
    ids.length === 0 ? {} : { hint: suggest(scheduleId, ids, 'schedules of this plugin') };
  return new DuctileError('SCHEDULE_NOT_FOUND', message, hint);
}

const TOLD_MAX = 20;

/** Whether the configuration has it, which is not to say that a service has begun with it. */
export function isDeclared({ plugin, scheduleId }: ScheduleName, { plugins }: Config): boolean {
  const { schedules = [] } = Object.hasOwn(plugins, plugin) ? (plugins[plugin] ?? {}) : {};
  return schedules.some(({ id }) => id === scheduleId);
}
