import { SyntaxKind, type Node, type SourceFile } from 'typescript/unstable/ast';
import { mutateSql, type SqlMutant } from './sql.ts';

export interface Mutant {
  /** Counted from 1. */
  readonly line: number;
  /** The change, such as `=== → !==`. */
  readonly change: string;
  readonly start: number;
  readonly end: number;
  readonly replacement: string;
}

/** Lists all mutants of a file, in the order of its text. */
export function findMutants(source: SourceFile): Mutant[] {
  const { text } = source;
  const found: Mutant[] = [];
  const replace = ({ start, end, replacement, label }: SqlMutant): void => {
    const line = text.slice(0, start).split('\n').length;
    const change = `${shorten(text.slice(start, end))} → ${label}`;
    found.push({ line, change, start, end, replacement });
  };
  const visit = (node: Node): void => {
    if (isWithoutEffect(node)) return;
    const start = node.getStart(source);
    for (const [part, replacement] of listChanges(node, text, source)) {
      replace({ start: part.getStart(source), end: part.end, replacement, label: replacement });
    }
    for (const mutant of listSqlMutants(node, source)) {
      replace({ ...mutant, start: start + mutant.start, end: start + mutant.end });
    }
    node.forEachChild(visit);
  };
  source.forEachChild(visit);
  return found.toSorted((a, b) => a.start - b.start || a.end - b.end);
}

export function applyMutant(text: string, { start, end, replacement }: Mutant): string {
  return text.slice(0, start) + replacement + text.slice(end);
}

type Change = readonly [node: Node, replacement: string];

/** Replacements of each operator: typical mistakes. */
const operators: ReadonlyMap<SyntaxKind, readonly string[]> = new Map([
  [SyntaxKind.EqualsEqualsEqualsToken, ['!==']],
  [SyntaxKind.ExclamationEqualsEqualsToken, ['===']],
  [SyntaxKind.LessThanToken, ['<=', '>']],
  [SyntaxKind.LessThanEqualsToken, ['<', '>']],
  [SyntaxKind.GreaterThanToken, ['>=', '<']],
  [SyntaxKind.GreaterThanEqualsToken, ['>', '<']],
  [SyntaxKind.AmpersandAmpersandToken, ['||']],
  [SyntaxKind.BarBarToken, ['&&']],
  [SyntaxKind.PlusToken, ['-']],
  [SyntaxKind.MinusToken, ['+']],
  [SyntaxKind.AsteriskToken, ['/']],
  [SyntaxKind.SlashToken, ['*']],
]);

/** True for types and imports, which have no effect at run time. */
function isWithoutEffect({ kind }: Node): boolean {
  if (kind >= SyntaxKind.FirstTypeNode && kind <= SyntaxKind.LastTypeNode) return true;
  return (
    kind === SyntaxKind.ImportDeclaration ||
    kind === SyntaxKind.InterfaceDeclaration ||
    kind === SyntaxKind.TypeAliasDeclaration
  );
}

function listChanges(node: Node, text: string, source: SourceFile): Change[] {
  const children: Node[] = [];
  node.forEachChild((child) => void children.push(child));
  const written = (part: Node): string => text.slice(part.getStart(source), part.end);
  const [first, second, third] = children;
  switch (node.kind) {
    case SyntaxKind.BinaryExpression:
      if (second === undefined || isJoining(second, [first, third])) return [];
      return (operators.get(second.kind) ?? []).map((other) => [second, other]);
    case SyntaxKind.PrefixUnaryExpression:
      return first !== undefined && written(node).startsWith('!') ? [[node, written(first)]] : [];
    case SyntaxKind.IfStatement:
    case SyntaxKind.ConditionalExpression:
      return first === undefined ? [] : forceCondition(first);
    case SyntaxKind.WhileStatement:
      return first === undefined ? [] : [[first, 'false']];
    case SyntaxKind.TrueKeyword:
      return [[node, 'false']];
    case SyntaxKind.FalseKeyword:
      return [[node, 'true']];
    case SyntaxKind.NumericLiteral:
      return [[node, String(Number(written(node).replaceAll('_', '')) + 1)]];
    case SyntaxKind.StringLiteral:
      return isCode(written(node)) ? [[node, "'mutated'"]] : [];
    case SyntaxKind.ExpressionStatement:
    case SyntaxKind.ThrowStatement:
    case SyntaxKind.ContinueStatement:
    case SyntaxKind.BreakStatement:
      return [[node, '{}']];
    case SyntaxKind.ReturnStatement:
      // Only an early return is a decision; the last one is the function's value.
      return node.parent.kind === SyntaxKind.IfStatement ? [[node, '{}']] : [];
    default:
      return [];
  }
}

/** Lists the mutants of an SQL template, with offsets from its start. */
function listSqlMutants(node: Node, source: SourceFile): SqlMutant[] {
  const { kind } = node;
  if (kind !== SyntaxKind.TemplateExpression && kind !== SyntaxKind.NoSubstitutionTemplateLiteral)
    return [];
  const start = node.getStart(source);
  const template = source.text.slice(start, node.end);
  let masked = template;
  node.forEachChild((span) => {
    span.forEachChild((part) => {
      if (isOfTemplate(part)) return;
      const [from, to] = [part.getStart(source) - start, part.end - start];
      masked = masked.slice(0, from) + 'x'.repeat(to - from) + masked.slice(to);
    });
  });
  return mutateSql(template, masked);
}

function isOfTemplate({ kind }: Node): boolean {
  return kind === SyntaxKind.TemplateMiddle || kind === SyntaxKind.TemplateTail;
}

function forceCondition(condition: Node): Change[] {
  return [
    [condition, 'true'],
    [condition, 'false'],
  ];
}

/** True for a concatenation of texts, which has no other operator. */
function isJoining(operator: Node, sides: readonly (Node | undefined)[]): boolean {
  const texts = [SyntaxKind.StringLiteral, SyntaxKind.TemplateExpression];
  return (
    operator.kind === SyntaxKind.PlusToken &&
    sides.some((side) => side !== undefined && texts.includes(side.kind))
  );
}

/** True for a word that code compares with, and not for a sentence, which tests needn't repeat. */
function isCode(literal: string): boolean {
  return /^'[\w.:-]+'$/.test(literal);
}

const SHOWN = 60;

function shorten(was: string): string {
  const short = was.replaceAll(/\s+/g, ' ');
  return short.length > SHOWN ? `${short.slice(0, SHOWN)}…` : short;
}
