/** The measurements over the slices of a run, and whether they stay level. */
import type { Figures } from '../support/report.ts';
import { floors, measures, type Floor, type Measure, type Sample } from './sample.ts';
import { medianOf, slopeOf } from './slope.ts';

/** Until caches are full, code is compiled, and the first rows are past their retention. */
const WARM_SLICES = 8;
/** With fewer, neither a slope nor a floor says anything. */
const SLICES_MIN = 12;
const MS_PER_HOUR = 3_600_000;

export interface Course {
  /** Throws when something grows that should not; otherwise returns the growth rates. */
  add(samples: readonly Sample[], sliceMs: number): Figures;
}

export function makeCourse(): Course {
  const levels = new Map<string, number[]>();
  return {
    add(samples, sliceMs) {
      const figures: Record<string, number[]> = {};
      const growths: string[] = [];
      const follow = (name: Measure | Floor, summarize: Summarize, verify: Verify): void => {
        const values = samples.flatMap((sample) => sample[name] ?? []);
        if (values.length === 0) return;
        const level = summarize(values);
        const course = [...(levels.get(name) ?? []), level];
        levels.set(name, course);
        figures[name] = [round(level)];
        const warm = course.slice(WARM_SLICES);
        if (warm.length < SLICES_MIN) return;
        const { grown, slices, max } = verify(warm);
        figures[`${name}PerHour`] = [round((grown / slices) * (MS_PER_HOUR / sliceMs))];
        if (grown > max) growths.push(`${name} grows: ${warm.map(round).join(' ')}`);
      };
      for (const name of Object.keys(measures) as Measure[])
        follow(name, medianOf, (warm) => ({ ...bySlope(warm), max: measures[name] }));
      for (const name of Object.keys(floors) as Floor[])
        follow(name, lowestOf, (warm) => ({ ...byThirds(warm), max: floors[name] }));
      if (growths.length > 0) throw new Error(growths.join('\n'));
      return figures;
    },
  };
}

/** The growth, and the number of slices. */
interface Growth {
  readonly grown: number;
  readonly slices: number;
}

type Summarize = (values: readonly number[]) => number;
type Verify = (warm: readonly number[]) => Growth & { readonly max: number };

function bySlope(warm: readonly number[]): Growth {
  const slices = warm.length - 1;
  return { grown: slopeOf(warm) * slices, slices };
}

/** Memory above the lowest point may be freed the next time; growth of the lowest point stays. */
function byThirds(warm: readonly number[]): Growth {
  const third = Math.floor(warm.length / 3);
  const grown = lowestOf(warm.slice(-third)) - lowestOf(warm.slice(0, third));
  return { grown, slices: warm.length - third };
}

function lowestOf(values: readonly number[]): number {
  return Math.min(...values);
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}
