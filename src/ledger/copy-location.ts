import { accessSync, constants, existsSync, readdirSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { DuctileError, messageOf } from '../base/errors.ts';

/** Refuses a place for the copy of a ledger that could not be written, before anything is done. */
export function refuseCopyFile(path: string): void {
  if (existsSync(path)) {
    throw refused(`${path} exists already`, 'Name a file that does not exist yet.');
  }
  const directory = dirname(path);
  if (!existsSync(directory)) {
    throw refused(`there is no directory ${directory}`, 'Make the directory, or name another.');
  }
  refuseLocked(directory);
}

/** The same for a directory with the copies of all; those above it need not be there. */
export function refuseCopyDirectory(path: string): void {
  const hint = 'Name a directory that does not exist yet.';
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats === undefined) return refuseLocked(nearest(path));
  if (!stats.isDirectory()) throw refused(`${path} is not a directory`, hint);
  refuseLocked(path);
  if (readdirSync(path).length > 0) throw refused(`${path} is not empty`, hint);
}

function nearest(path: string): string {
  const above = dirname(path);
  return above === path || existsSync(above) ? above : nearest(above);
}

function refuseLocked(directory: string): void {
  try {
    accessSync(directory, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (error) {
    const message = `${directory} cannot be written to: ${messageOf(error)}`;
    throw refused(message, 'Name another place, or let the user that runs the server write there.');
  }
}

function refused(message: string, hint: string): DuctileError {
  return new DuctileError('BACKUP_REFUSED', message, { place: 'params.to', hint });
}
