/** What was measured over the slices of a run, and whether it stays where it is. */
import type { Figures } from '../support/report.ts';
import { measures, type Measure, type Sample } from './sample.ts';
import { medianOf, slopeOf } from './slope.ts';

/** Until caches are full, code is compiled, and the first rows are past their retention. */
const WARM_SLICES = 8;
/** With fewer, a slope says nothing. */
const SLICES_MIN = 12;

export interface Course {
  /** Throws when something grows that should not; tells how fast it does otherwise. */
  add(samples: readonly Sample[], sliceMs: number): Figures;
}

export function makeCourse(): Course {
  const levels = new Map<Measure, number[]>();
  return {
    add(samples, sliceMs) {
      const figures: Record<string, number[]> = {};
      const growths: string[] = [];
      for (const measure of Object.keys(measures) as Measure[]) {
        const values = samples.flatMap((sample) => sample[measure] ?? []);
        if (values.length === 0) continue;
        const level = medianOf(values);
        const course = [...(levels.get(measure) ?? []), level];
        levels.set(measure, course);
        figures[measure] = [round(level)];
        const warm = course.slice(WARM_SLICES);
        if (warm.length < SLICES_MIN) continue;
        const slope = slopeOf(warm);
        figures[`${measure}PerHour`] = [round((slope * 3_600_000) / sliceMs)];
        const grown = slope * (warm.length - 1);
        if (grown > measures[measure])
          growths.push(`${measure} grows: ${warm.map(round).join(' ')}`);
      }
      if (growths.length > 0) throw new Error(growths.join('\n'));
      return figures;
    },
  };
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}
