import { ask } from '../ui/ask.tsx';

/** Asks whether to reset a breaker. */
export function resetBreaker(
  [plugin, command]: readonly [plugin: string, command: string],
  reload: () => void,
): void {
  ask({
    title: `Reset the breaker of ${plugin} ${command}?`,
    word: 'Reset the breaker',
    name: 'system.reset',
    input: { plugin, command },
    done() {
      reload();
      return 'Breaker reset';
    },
  });
}
