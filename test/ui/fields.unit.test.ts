import { expect, test } from 'vitest';
import { fieldsOf, parseObject, valueOf } from '../../web/plugin/fields.ts';

const schema = { properties: { id: { type: 'integer' }, price: { type: 'number' }, more: {} } };

test('a number that a double can’t hold is sent as it was typed', () => {
  const texts = new Map([
    ['id', ' 12345678901234567890 '],
    ['price', '1.5'],
    ['more', '{"list":[1e400]}'],
  ]);
  const value = valueOf(fieldsOf(schema), texts);
  expect(JSON.stringify(value)).toBe(
    '{"id":12345678901234567890,"price":1.5,"more":{"list":[1e400]}}',
  );
  expect(JSON.stringify(parseObject('{"a":9007199254740993}'))).toBe('{"a":9007199254740993}');
});

test("a text that isn't a number is refused with its field", () => {
  expect(() => valueOf(fieldsOf(schema), new Map([['id', 'x']]))).toThrow('id must be a number');
});
