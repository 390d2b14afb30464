import type { ParsedStep } from './parsed.ts';

/** Gives each step its id, in the order in which they are written. */
export type Namer = (given: string | undefined) => string;

/** A step without an id is called by its place in the pipeline, unless another has that name. */
export function namer(steps: readonly ParsedStep[]): Namer {
  const taken = new Set(steps.flatMap(idsOf));
  let count = 0;
  return (given) => {
    count += 1;
    if (given !== undefined) return given;
    let name = `step_${count}`;
    while (taken.has(name)) name += '_';
    taken.add(name);
    return name;
  };
}

function idsOf(step: ParsedStep): string[] {
  const inner = listsOf(step).flatMap((list) => list.flatMap(idsOf));
  return step.id === undefined ? inner : [step.id, ...inner];
}

function listsOf({ steps, split, cases, otherwise }: ParsedStep): (readonly ParsedStep[])[] {
  const arms = Object.values(cases ?? {}).map(
    (arm: readonly ParsedStep[] | { readonly steps: readonly ParsedStep[] }) =>
      'steps' in arm ? arm.steps : arm,
  );
  return [steps ?? [], split ?? [], ...arms, otherwise ?? []];
}
