/** Findings that need attention, loaded once for the menu and the pages. */
import { createContext } from 'preact';
import { useContext, useEffect, useState } from 'preact/hooks';
import type { Refusal } from '../api/client.ts';
import type { Finding, Incident, Input, Name, Output } from '../api/types.ts';
import { useCall } from '../ui/use-call.ts';
import { mergeIncidents } from './merge.ts';

/** Finding of `doctor`, with the open incident of the same kind and key. */
export interface ShownFinding extends Finding {
  readonly incident: Incident | undefined;
}

export interface AttentionState {
  readonly isLoading: boolean;
  /** True when the result of `doctor` is loaded. */
  readonly isChecked: boolean;
  readonly findings: readonly ShownFinding[];
  /** Errors that kept findings from being loaded. */
  readonly errors: readonly Refusal[];
  readonly reload: () => void;
}

const nothing: AttentionState = {
  isLoading: true,
  isChecked: false,
  findings: [],
  errors: [],
  reload: () => undefined,
};

export const Attention = createContext<AttentionState>(nothing);

export function useAttention(): AttentionState {
  return useContext(Attention);
}

/** Events after which something may have become wrong, or right again. */
const kinds = ['incident.', 'breaker.', 'directive.', 'run.', 'job.dead'];

/** Some findings come with time alone, such as a schedule that is late. */
const CHECK_MS = 60_000;

/** Loads the findings of `doctor` and the open incidents. After a 403 the call isn't repeated. */
export function useAttentionState(): AttentionState {
  const doctor = useAllowed('system.doctor', {});
  const incidents = useAllowed('incident.list', {});
  const reload = (): void => {
    doctor.reload();
    incidents.reload();
  };
  useEffect(() => {
    const timer = setInterval(() => {
      if (!document.hidden) doctor.reload();
    }, CHECK_MS);
    return () => clearInterval(timer);
  }, [doctor.reload]);
  const isLoading = [doctor, incidents].some(({ data, error }) => data === undefined && !error);
  const errors = [doctor.error, incidents.error].filter((error) => error !== undefined);
  return {
    isLoading,
    isChecked: doctor.data !== undefined,
    // While `doctor` is loading, an incident would be shown without its explanation.
    findings: isLoading
      ? []
      : mergeIncidents(doctor.data?.findings, incidents.data?.incidents ?? []),
    errors,
    reload,
  };
}

interface AllowedResult<N extends Name> {
  readonly data: Output<N> | undefined;
  readonly error: Refusal | undefined;
  readonly reload: () => void;
}

function useAllowed<N extends Name>(name: N, input: Input<N>): AllowedResult<N> {
  const [refused, setRefused] = useState<Refusal>();
  const { data, error, reload } = useCall(name, refused === undefined ? input : undefined, kinds);
  useEffect(() => {
    if (error?.status === 403) setRefused(error);
  }, [error]);
  return refused === undefined
    ? { data, error, reload }
    : { data: undefined, error: refused, reload };
}
