import { useState } from 'preact/hooks';
import type { Attempt } from '../api/types.ts';
import { bytes, duration } from '../text/time.ts';
import { Card } from '../ui/parts.tsx';
import { Status } from '../ui/status.tsx';
import { Printed, Text, Time } from '../ui/text.tsx';
import { PhaseBar } from './phase-bar.tsx';

const SHOWN = 10;

/** The attempts of a job, the newest first. */
export function Attempts({ attempts }: { readonly attempts: readonly Attempt[] }) {
  const [isWhole, setWhole] = useState(false);
  const shown = isWhole ? attempts : attempts.slice(-SHOWN);
  return (
    <Card title={attempts.length === 1 ? '1 attempt' : `${attempts.length} attempts`}>
      {attempts.length === 0 && <p class="soft pad">No attempt has ended yet.</p>}
      <ol class="attempts">
        {shown.toReversed().map((attempt) => (
          <li key={attempt.log_id}>
            <AttemptItem attempt={attempt} />
          </li>
        ))}
      </ol>
      {shown.length < attempts.length && (
        <button type="button" class="quiet" onClick={() => setWhole(true)}>
          Show all {attempts.length} attempts
        </button>
      )}
    </Card>
  );
}

function AttemptItem({ attempt }: { readonly attempt: Attempt }) {
  const { signal, pid, stderr, last_error, cause, cpu_ms, memory_peak_bytes } = attempt;
  return (
    <>
      <div class="attempt-head">
        <b>#{attempt.attempt}</b>
        <Status value={attempt.status} />
        {cause !== attempt.status && (
          <span class="soft">
            <Text value={cause.replaceAll('_', ' ')} />
          </span>
        )}
        <span class="soft">
          {exitText(attempt)}
          {signal !== null && `${signal} · `}
          {pid !== null && `pid ${pid} · `}
          {cpu_ms !== null && `${duration(cpu_ms)} CPU · `}
          {memory_peak_bytes !== null && `${bytes(memory_peak_bytes)} memory · `}
          <Time at={attempt.completed_at} />
        </span>
      </div>
      <PhaseBar attempt={attempt} />
      {last_error !== null && (
        <p class="error">
          <Text value={last_error} lines />
        </p>
      )}
      {stderr !== null && stderr !== '' && (
        <details open={attempt.status !== 'succeeded'}>
          <summary>stderr{attempt.stderr_truncated ? ' (truncated)' : ''}</summary>
          <Printed value={stderr} label="stderr" />
        </details>
      )}
    </>
  );
}

/** Formats the exit code of the command that the plugin ran, or else of the plugin process. */
function exitText({ command_exit_code: own, exit_code: process }: Attempt): string {
  const code = own ?? process;
  return code === null ? '' : `exit ${code} · `;
}
