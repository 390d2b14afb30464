import { isObject } from '../../base/json.ts';
import { isSecretName } from '../../base/secret-names.ts';
import { maskSecrets, maskText, REDACTED } from '../../base/secrets.ts';
import type { Condition } from './condition.ts';
import { pathText } from './scope.ts';
import type { Template } from './template.ts';

/** A condition in one line, as a person would say it. */
export function conditionText(condition: Condition): string {
  if ('cel' in condition) return condition.cel.replaceAll(/\s+/g, ' ').trim();
  if ('all' in condition) return joined(condition.all, ' and ');
  if ('any' in condition) return joined(condition.any, ' or ');
  if ('not' in condition) return `not (${conditionText(condition.not)})`;
  const { path, op, value } = condition;
  return op === 'exists'
    ? `${pathText(path)} exists`
    : `${pathText(path)} ${op} ${JSON.stringify(value)}`;
}

function joined(conditions: readonly Condition[], word: string): string {
  const texts = conditions.map(conditionText);
  return texts.length === 1 ? texts.join('') : `(${texts.join(word)})`;
}

/** A template as it was written, without what should not be seen; values that are no text as JSON. */
export function templateText(template: Template): string {
  if ('value' in template) {
    const masked = isObject(template.value) ? maskSecrets(template.value) : template.value;
    return typeof masked === 'string' ? maskText(masked) : maskText(JSON.stringify(masked));
  }
  if ('ref' in template) return `{${pathText(template.ref)}}`;
  if ('text' in template) {
    const parts = template.text.map((part) =>
      typeof part === 'string' ? part : `{${pathText(part.ref)}}`,
    );
    return maskText(parts.join(''));
  }
  if ('list' in template) return `[${template.list.map(templateText).join(', ')}]`;
  return `{${Object.entries(template.map).map(fieldText).join(', ')}}`;
}

/** A field of that name; of a secret only from where it comes. */
export function fieldText([key, template]: readonly [string, Template]): string {
  const isHidden = isSecretName(key) && !('ref' in template);
  return `${key}: ${isHidden ? REDACTED : templateText(template)}`;
}
