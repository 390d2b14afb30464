/**
 * The letters of a text as a reader takes them, whatever they are made of: one case, full width and
 * styled letters as plain ones, look-alikes of other scripts as what they look like, and nothing of
 * accents, signs, spaces and what cannot be seen.
 */
export interface Letters {
  readonly text: string;
  /** Where in the original the character stands that a letter was made of. */
  readonly starts: readonly number[];
  /** Letters that are written with digits or signs, which may as well be no letters at all. */
  readonly doubtful: ReadonlySet<number>;
}

export function foldLetters(text: string): Letters {
  const codes: number[] = [];
  const starts: number[] = [];
  const doubtful = new Set<number>();
  const add = (code: number, at: number): void => {
    codes.push(code);
    starts.push(at);
  };
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code < 0x80) {
      const letter = ascii[code] ?? 0;
      if (letter === 0) continue;
      if (!isLetter(code)) doubtful.add(codes.length);
      add(letter, at);
      continue;
    }
    const sign = signAt(text, at);
    const folded = fold(sign);
    for (let index = 0; index < folded.length; index += 1) add(folded.charCodeAt(index), at);
    at += sign.length - 1;
  }
  return { text: Buffer.from(codes).toString('latin1'), starts, doubtful };
}

/** Where the last letter of the word stands, and its first. */
export interface Found {
  readonly first: number;
  readonly last: number;
}

/**
 * Every place where the letters are a word, from left to right, whether what is doubtful counts or
 * not. It looks at each letter once for each of the word's, so that no text makes it slow.
 */
export function findWord({ text, doubtful }: Letters, word: string): Found[] {
  const found: Found[] = [];
  /** Where the beginning of the word that is so long began; -1 for none. */
  let begun = new Int32Array(word.length).fill(-1);
  for (let at = 0; at < text.length; at += 1) {
    const isDoubtful = doubtful.has(at);
    const next = isDoubtful ? begun.slice() : new Int32Array(word.length).fill(-1);
    for (let length = 0; length < word.length; length += 1) {
      const first = length === 0 ? at : (begun[length] ?? -1);
      if (first === -1 || text[at] !== word[length]) continue;
      if (length + 1 < word.length) next[length + 1] = first;
      else found.push({ first, last: at });
    }
    begun = found.at(-1)?.last === at ? begun.fill(-1) : next;
  }
  return found;
}

/** The whole character that begins there, be it two units long. */
export function signAt(text: string, at: number): string {
  return String.fromCodePoint(text.codePointAt(at) ?? 0);
}

/** The plain small letters that one character looks like; mostly one, or none. */
function fold(sign: string): string {
  let folded = known.get(sign);
  if (folded === undefined) {
    const plain = Array.from(sign.normalize('NFKD'), (part) => twins.get(part) ?? part).join('');
    folded = enclosed(sign.codePointAt(0) ?? 0) ?? plain.toLowerCase().replaceAll(/[^a-z]/g, '');
    if (known.size < KNOWN_MAX) known.set(sign, folded);
  }
  return folded;
}

const KNOWN_MAX = 5000;
const known = new Map<string, string>();

/** Digits and signs that are written for letters count as those. */
const leet: Readonly<Record<string, string>> = {
  '0': 'o',
  '1': 'l',
  '3': 'e',
  '4': 'a',
  '@': 'a',
  '|': 'l',
};

function isLetter(code: number): boolean {
  return (code | 0x20) >= 0x61 && (code | 0x20) <= 0x7a;
}

/** The code of the letter that each sign of ASCII counts as, or 0. */
const ascii = Uint8Array.from({ length: 0x80 }, (_, code) => {
  const sign = String.fromCharCode(code);
  const letter = isLetter(code) ? sign.toLowerCase() : (leet[sign] ?? '\0');
  return letter.charCodeAt(0);
});

/** Letters in black circles and squares and those of flags, which have no plain form of their own. */
function enclosed(code: number): string | undefined {
  for (const start of [0x1f150, 0x1f170, 0x1f1e6]) {
    if (code >= start && code < start + 26) return String.fromCharCode(0x61 + code - start);
  }
  return undefined;
}

/** For the letters of the markers: Cyrillic, Greek, Armenian, Cherokee, Lisu and small capitals. */
const twins: ReadonlyMap<string, string> = new Map(
  Object.entries({
    a: 'АаΑαᎪꓮᴀɑ',
    b: 'ВвЬьΒβᏴꓐʙ',
    d: 'ԁԀᎠꓓᴅժ',
    e: 'ЕеΕεᎬꓰᴇҽєЄ℮',
    h: 'НнһҺΗᎻꓧʜհ',
    k: 'КкΚκᏦꓗᴋқ',
    l: 'ӀӏІіΙιᏞꓡʟłŁǀו',
    n: 'ΝνᴎոпПꓠɴ',
    o: 'ОоΟοՕօᴏꓳסƠơØø',
    p: 'РрΡρᏢꓑᴘ',
    r: 'ᎡᏒꓣʀгɾ',
    t: 'ТтΤτᎢꓔᴛ',
    w: 'ԜԝᎳꓪᴡѡшШωա',
    x: 'ХхΧχꓫ',
    y: 'УуΥυүҮᎩꓬʏγ',
  }).flatMap(([letter, signs]) => Array.from(signs, (sign) => [sign, letter] as const)),
);
