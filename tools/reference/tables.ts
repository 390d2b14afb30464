import { migrations } from '../../src/ledger/migrate.ts';
import { sqliteDialect } from '../../src/ledger/sqlite/session.ts';

/** Renders the ledger's tables, as the migrations create them on SQLite. */
export function renderTables(): string {
  const statements = migrations.flatMap(({ version, name, statements: make }) => [
    `-- ${version} ${name}`,
    ...make(sqliteDialect).map((statement) => `${outdent(statement)};`),
  ]);
  return `# Tables

A ledger is one SQLite file or one PostgreSQL schema with these tables. Times are UTC text with milliseconds and sort as
they read; payloads, results and states are JSON text. You may read everything; write nothing.

The types shown are SQLite's. On PostgreSQL whole numbers are \`bigint\`, texts have the collation \`C\`, and numbered
columns are identities.

\`\`\`sql
${statements.join('\n')}
\`\`\`

This page is written by \`tools/generate\` from \`src/ledger/migrations\`.
`;
}

function outdent(statement: string): string {
  return statement.replaceAll(/\n {4}/g, '\n');
}
