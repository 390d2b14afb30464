import type { Route } from '../route.ts';
import { count } from '../text/time.ts';
import { Choice } from '../ui/filters.tsx';
import { Card, Empty, Head, Waiting } from '../ui/parts.tsx';
import { useAttention, type ShownFinding } from './attention.ts';
import { FindingItem } from './finding.tsx';
import { IncompleteNotice } from './incomplete-notice.tsx';

const severities: readonly (readonly [value: string, text: string])[] = [
  ['', 'All'],
  ['error', 'Errors'],
  ['warning', 'Warnings'],
  ['info', 'Notes'],
];

/** Everything that is wrong or needs a decision, as `ductile doctor` lists it. */
export function FindingsPage({ route }: { readonly route: Route }) {
  const { isLoading, isChecked, findings, errors, reload } = useAttention();
  const severity = route.query['severity'] ?? '';
  const shown = findings.filter((finding) => severity === '' || finding.severity === severity);
  return (
    <>
      <Head title="Doctor" about="Everything that is wrong or needs a decision, most urgent first.">
        <Choice
          route={route}
          name="severity"
          label="Severity"
          options={severities.map(([value, text]) => [value, countText(findings, value, text)])}
        />
      </Head>
      {isLoading && <Waiting />}
      <IncompleteNotice errors={errors} />
      {shown.length > 0 && (
        <Card title={shown.length === 1 ? '1 finding' : `${count(shown.length)} findings`}>
          <ul class="findings" aria-label="Findings">
            {shown.map((finding) => (
              <FindingItem
                key={`${finding.id} ${finding.message}`}
                finding={finding}
                reload={reload}
              />
            ))}
          </ul>
        </Card>
      )}
      {shown.length === 0 && isChecked && (
        <Empty command="ductile doctor">
          {severity === ''
            ? 'Doctor found nothing wrong. It checks the configuration and the database. To check from a terminal:'
            : 'Doctor found nothing of this severity. To check from a terminal:'}
        </Empty>
      )}
    </>
  );
}

function countText(findings: readonly ShownFinding[], value: string, text: string): string {
  const found = findings.filter(({ severity }) => value === '' || severity === value).length;
  return found === 0 ? text : `${text} ${count(found)}`;
}
