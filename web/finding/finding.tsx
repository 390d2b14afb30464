import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { isDestructive } from '../api/client.ts';
import { link } from '../route.ts';
import { count } from '../text/time.ts';
import { Command } from '../ui/parts.tsx';
import { Status } from '../ui/status.tsx';
import { Marked, Text, Time } from '../ui/text.tsx';
import { Why } from '../ui/why.tsx';
import type { ShownFinding } from './attention.ts';
import { confirmRemedy } from './confirm-remedy.ts';
import { readRemedy } from './remedy.ts';
import { findSubject } from './subject.ts';

interface FindingProps {
  readonly finding: ShownFinding;
  /** Shows only the first command, and no explanation. */
  readonly isShort?: boolean;
  readonly reload: () => void;
}

/** Finding with its evidence and its remedies. */
export function FindingItem({ finding, isShort = false, reload }: FindingProps) {
  const { severity, evidence, fix, commands, since, count: objects } = finding;
  const [isExplained, setExplained] = useState(false);
  const isWhyThere = !isShort && finding.why !== null;
  return (
    <li class="finding">
      <div class="finding-state">
        <Status value={severity} />
        <span class="soft small">
          {since !== null && <Time at={since} />}
          {objects > 1 && ` · ${count(objects)}×`}
        </span>
      </div>
      <div class="finding-text">
        <p class="says">
          <Message finding={finding} />
        </p>
        {evidence !== null && evidence !== shownPlace(finding) && (
          <p class="soft small">
            <Text value={evidence} lines />
          </p>
        )}
        {fix !== '' && !isCommand(fix, commands) && (
          <p class="small">
            <Marked value={fix} />
          </p>
        )}
        {commands.slice(0, isShort ? 1 : undefined).map((command) => (
          <Command text={command} />
        ))}
        {isExplained && finding.why !== null && <Why kind="any" id={finding.why} />}
      </div>
      <Acts finding={finding} reload={reload}>
        {isWhyThere && (
          <button
            type="button"
            aria-expanded={isExplained}
            onClick={() => setExplained(!isExplained)}
          >
            Why
          </button>
        )}
      </Acts>
    </li>
  );
}

/** True if the fix only repeats a command, which is shown anyway. */
function isCommand(fix: string, commands: readonly string[]): boolean {
  return commands.some((command) => fix === `Run \`${command}\`.`);
}

/** Returns the location of a finding in a file, which its message may contain already. */
function shownPlace({ key, place }: ShownFinding): string | undefined {
  return key === '' ? place : undefined;
}

/** Message of a finding. A finding in a file also shows its key or location. */
function Message({ finding }: Pick<FindingProps, 'finding'>) {
  const { kind, category, place, key, message } = finding;
  if (kind !== category) return <Text value={message} />;
  return (
    <>
      <code>
        <Text value={key === '' ? place : key} />
      </code>{' '}
      <Text value={message} />
    </>
  );
}

interface ActsProps extends Pick<FindingProps, 'finding' | 'reload'> {
  readonly children: ComponentChildren;
}

function Acts({ finding, reload, children }: ActsProps) {
  const subject = findSubject(finding);
  const { incident } = finding;
  return (
    <div class="acts">
      {subject !== undefined && <a href={subject.href}>Open {subject.noun}</a>}
      {incident !== undefined && subject?.noun !== 'incident' && (
        <a href={link('incidents', { id: incident.incident_id })}>Open incident</a>
      )}
      {children}
      <Remedies finding={finding} reload={reload} />
    </div>
  );
}

/** Button for each command that the dashboard can run. */
export function Remedies({ finding, reload }: Pick<FindingProps, 'finding' | 'reload'>) {
  return (
    <>
      {finding.commands.map((command, at) => {
        const remedy = readRemedy(command);
        if (remedy === undefined) return null;
        const tone = isDestructive(remedy.name) ? 'danger' : at === 0 ? 'main' : '';
        return (
          <button type="button" class={tone} onClick={() => confirmRemedy(remedy, reload)}>
            {remedy.word}
          </button>
        );
      })}
    </>
  );
}
