import { limits } from '../base/limits.ts';
import type { CompileFault } from './library.ts';
import type { Condition } from './condition.ts';
import { stepsIn, type PipelineEntry, type StepEntry, type SwitchEntry } from './entry.ts';

/** What can be told of a pipeline by itself: names that are taken, steps that nothing leads to. */
export function checkEntry(entry: PipelineEntry): CompileFault[] {
  const steps = stepsIn(entry.steps);
  return [...findTaken(steps), ...steps.flatMap(checkStep)];
}

function findTaken(steps: readonly StepEntry[]): CompileFault[] {
  const seen = new Set<string>();
  return steps.flatMap(({ id, path }) => {
    if (!seen.has(id)) {
      seen.add(id);
      return [];
    }
    const message = `is ${id}, which is the id of an earlier step of this pipeline`;
    return [{ path: [...path, 'id'], message, hint: 'Give each step an id of its own.' }];
  });
}

function checkStep(step: StepEntry): CompileFault[] {
  const faults: CompileFault[] = [];
  const { path } = step;
  if (path.filter((part) => typeof part === 'number').length > limits.pipelineDepthMax) {
    faults.push({ path, message: `is nested deeper than ${limits.pipelineDepthMax} steps` });
  }
  if (isAlways(step.when, false)) {
    faults.push({ path: [...path, 'if'], message: 'never holds, so the step is never reached' });
  }
  if (step.mode === 'foreach' && 'value' in step.items && !Array.isArray(step.items.value)) {
    const message = 'must be a list, or a path to one such as payload.items';
    faults.push({ path: [...path, 'foreach'], message });
  }
  if (step.mode === 'switch') faults.push(...checkArms(step));
  return faults;
}

/** What comes after a case that always holds is never reached. */
function checkArms({ path, cases, otherwise }: SwitchEntry): CompileFault[] {
  const sure = cases.findIndex(({ when }) => isAlways(when, true));
  const never = cases.filter(({ when }) => isAlways(when, false));
  const after = sure === -1 ? [] : cases.slice(sure + 1);
  const faults: CompileFault[] = [...after, ...never].map((one) => ({
    path: one.path,
    message: after.includes(one) ? UNREACHABLE : 'never holds, so its steps are never reached',
  }));
  if (sure !== -1 && otherwise !== undefined) {
    faults.push({ path: [...path, 'otherwise'], message: UNREACHABLE });
  }
  return faults;
}

const UNREACHABLE = 'is never reached, since an earlier case always holds';

function isAlways(condition: Condition | undefined, value: boolean): boolean {
  return condition !== undefined && 'cel' in condition && condition.cel.trim() === String(value);
}
