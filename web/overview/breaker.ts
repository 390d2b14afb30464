import { ask } from '../ui/ask.tsx';

/** Asks whether a breaker is to be closed, whatever its plugin did. */
export function resetBreaker(
  [plugin, command]: readonly [plugin: string, command: string],
  reload: () => void,
): void {
  ask({
    title: `Close the breaker of ${plugin} ${command}?`,
    word: 'Reset the breaker',
    name: 'system.reset',
    input: { plugin, command },
    done() {
      reload();
      return 'The breaker is closed.';
    },
  });
}
