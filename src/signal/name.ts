import { limits } from '../base/limits.ts';

/**
 * What is wrong with the type of a signal that is no plugin's, or undefined when nothing is. Plugins
 * may name their events as they like.
 */
export function findNameFault(name: string): string | undefined {
  if (name.length > limits.eventTypeBytesMax) {
    return `is longer than ${limits.eventTypeBytesMax} characters`;
  }
  if (!NAME.test(name)) return 'must be lowercase words with dots between, such as order.paid';
  const version = name.split('.').find((word) => VERSION.test(word));
  return version === undefined ? undefined : `has the version ${version} in it, which is for data`;
}

const NAME = /^[a-z][a-z0-9_-]*(\.[a-z][a-z0-9_-]*)+$/;
const VERSION = /^v\d+([_-]\d+)*$/;
