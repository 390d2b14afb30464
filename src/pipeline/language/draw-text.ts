import { isBare, outline, type Drawn, type DrawnArm } from './draw.ts';
import type { Graph } from './graph.ts';

/** A tree of lines; what is special about a step stands under it when that is asked for. */
export function drawText(graph: Graph, title: string, hasNotes: boolean): string {
  const draw = (step: Drawn): Branch => ({
    head: `${step.id}: ${step.does}`,
    notes: hasNotes ? step.notes : step.notes.filter((note) => note.startsWith('if ')),
    below: step.arms.flatMap((arm) => (isBare(arm) ? arm.steps.map(draw) : [drawArm(arm)])),
  });
  const drawArm = ({ label, steps }: DrawnArm): Branch => ({
    head: label ?? '',
    notes: [],
    below: steps.length === 0 ? [NOTHING] : steps.map(draw),
  });
  return [title, ...hang(outline(graph).map(draw), '')].join('\n');
}

interface Branch {
  readonly head: string;
  readonly notes: readonly string[];
  readonly below: readonly Branch[];
}

const NOTHING: Branch = { head: 'nothing', notes: [], below: [] };

function hang(branches: readonly Branch[], lead: string): string[] {
  return branches.flatMap(({ head, notes, below }, index) => {
    const isLast = index === branches.length - 1;
    const inner = `${lead}${isLast ? '   ' : '│  '}`;
    const bar = below.length === 0 ? '   ' : '│  ';
    return [
      `${lead}${isLast ? '└─ ' : '├─ '}${head}`,
      ...notes.map((note) => `${inner}${bar}${note}`),
      ...hang(below, inner),
    ];
  });
}
