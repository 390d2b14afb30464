import type { FindingGuide } from '../../src/insight/define-finding.service.ts';
import { describeFileFix, type FileCategory, fileConditions } from '../../src/insight/finding.ts';
import { allFindings } from '../../src/insight/findings/all.ts';

/** Renders every kind of finding with its condition and its remedy. */
export function renderFindings(): string {
  const sorted = allFindings.toSorted((a, b) => (a.kind < b.kind ? -1 : 1));
  const files = Object.entries(fileConditions).map(
    ([category, condition]) =>
      `| \`${category}\` | ${condition} | ${describeFileFix(category as FileCategory)} |`,
  );
  return `# Findings

A finding is a problem or a pending decision. \`ductile doctor\` lists all of them. Incidents, \`ductile why\`,
\`ductile system selfcheck\` and \`ductile config check\` use the same words and remedies.

The id of a finding is its kind and the key of its object, such as \`job_dead:mail/handle\`. \`ductile why\` accepts it.
Every finding has evidence: the records that prove it, or the location in a file.

## In the configuration files

The kind of a finding in the files is its category. It names the file, the line and the key.
The remedy below is the default.

| kind | condition | remedy |
| --- | --- | --- |
${files.join('\n')}

${sorted.map(renderFinding).join('\n')}
This page is written by \`tools/generate\` from \`src/insight/findings\`.
`;
}

function renderFinding(guide: FindingGuide): string {
  const { kind, condition, rank, fix, command } = guide;
  const facts = [
    `Usual severity: ${rank.severity}. Category: ${rank.category}.`,
    ...(guide.isHold === true ? ['Only `why` and `system selfcheck` report it.'] : []),
    ...(guide.incident === undefined ? [] : [ends[guide.incident]]),
    ...(guide.isAcknowledgeable === true
      ? [`To acknowledge it: \`ductile incident acknowledge ${kind}:KEY\`.`]
      : []),
    `Remedy: ${fix}`,
    `First command: \`${command}\``,
  ];
  return `## ${kind}\n\n${condition}\n\n${facts.map((fact) => `- ${fact}\n`).join('')}`;
}

const ends: Readonly<Record<NonNullable<FindingGuide['incident']>, string>> = {
  found: 'Opens an incident, which closes when the problem is no longer found.',
  success: 'Opens an incident, which closes when a job of the command succeeds.',
  quiet: 'Opens an incident, which closes when it has not happened for an hour.',
};
