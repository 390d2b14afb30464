import { useAttention } from '../finding/attention.ts';
import { FindingItem } from '../finding/finding.tsx';
import { needsAttention } from '../finding/merge.ts';
import { IncompleteNotice } from '../finding/incomplete-notice.tsx';
import { link } from '../route.ts';
import { count } from '../text/time.ts';
import { Card } from '../ui/parts.tsx';
import { Status } from '../ui/status.tsx';

const SHOWN = 8;

/** Card with the most urgent findings. It reports that nothing is wrong only if `doctor` was checked. */
export function AttentionCard() {
  const { isLoading, isChecked, findings, errors, reload } = useAttention();
  const urgent = findings.filter(needsAttention);
  const notes = findings.length - urgent.length;
  const hasErrors = urgent.some(({ severity }) => severity === 'error');
  if (urgent.length === 0 && !isChecked) return <IncompleteNotice errors={errors} />;
  return (
    <>
      <Card
        title="Needs attention"
        tone={hasErrors ? 'alarm' : ''}
        aside={<a href={link('doctor')}>{linkText(urgent.length, notes)}</a>}
      >
        {urgent.length > 0 && (
          <ul class="findings" aria-label="Needs attention">
            {urgent.slice(0, SHOWN).map((finding) => (
              <FindingItem
                key={`${finding.id} ${finding.message}`}
                finding={finding}
                isShort
                reload={reload}
              />
            ))}
          </ul>
        )}
        {urgent.length === 0 && !isLoading && errors.length === 0 && (
          <p class="pad">
            <Status value="ok" says="Nothing needs attention." />{' '}
            <span class="soft">Doctor found no errors and no warnings.</span>
          </p>
        )}
      </Card>
      <IncompleteNotice errors={errors} />
    </>
  );
}

function linkText(urgent: number, notes: number): string {
  if (urgent > SHOWN) return `All ${count(urgent + notes)} findings`;
  return notes === 0 ? 'Doctor' : `Doctor, ${notes} ${notes === 1 ? 'note' : 'notes'}`;
}
