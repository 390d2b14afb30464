/** Secrets of every shape that are planted and must be found nowhere. */
import { between, type Random } from '../../support/crash/random.ts';

/** The prefixes of secrets with a recognizable shape; other secrets have none. */
const beginnings = `
ghp_ gho_ ghs_ ghu_ ghr_ github_pat_ glpat- gldt- glrt- glcbt- glptt- glft- glimt- glagent- glsoat-
xoxb- xoxp- xoxa-2- xoxr- xoxs- xoxe- xapp-1- https://hooks.slack.com/services/ sk- sk-proj- sk-ant-api03-
sk_live_ sk_test_ rk_live_ pk_live_ whsec_ AKIA ASIA ABIA ACCA AIza ya29. GOCSPX- eyJhbGciOiJIUzI1NiJ9.
npm_ pypi- rubygems_ dckr_pat_ hvs. hvb. hvr. s. dop_v1_ doo_v1_ dor_v1_ shpat_ shpca_ shppa_ shpss_
SG. key- mailgun- xkeysib- sq0atp- sq0csp- EAAA AC SK PMAK- pul- PRIVATE-TOKEN- NRAK- NRII- NRJS- NRAL-
dapi atlasv1. tfe. figd_ lin_api_ lin_oauth_ secret_ ntn_ hf_ api_org_ r8_ gsk_ co_ pplx- sntrys_ sntryu_
glsa_ glc_ dt0c01. fio-u- sgp_ sgs_ AGE-SECRET-KEY-1 ops_ BBDC- ATATT3 ATCTT3 v1.0- tk-us- duffel_live_
EZAK EZTK fm_ CFPAT- CLOJARS_ cio- codecov_ databricks- dnkey- dp.pt. dp.st. dp.ct. dp.sa. fastly_ FLWSECK-
flyv1_ fm2_ gitea_ gocardless_live_ HRKU- hubspot_ infracost_ico- jfrog_AKC kucoin_ launchdarkly_sdk- LTAI
mapbox_pk. messagebird_ netlify_nfp_ nytimes_ octopus_API- okta_00 openshift_sha256~ planetscale_pscale_tkn_
plaid_access- prefect_pnu_ rdme_xn8s9h readme_ sendbird_ sendinblue_ settlemint_sm_pat_ shippo_live_ sidekiq_
snyk_ sourcegraph_sgp_ squarespace_ telegram_bot vault_b. yandex_AQVN yandex_t1. zendesk_ zuplo_zpka_ 1password_
cloudflare_v1.0- coinbase_ confluent_ contentful_ discord_mfa. droneci_ dropbox_sl. etsy_ facebook_EAAM finicity_
`
  .trim()
  .split(/\s+/);

const bodies = {
  letters: 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789',
  hex: '0123456789abcdef',
};

/** Characters that break quoting, escaping and lines. */
const awkward = [
  'quotes"and\'more`of',
  'back\\slash\\\\twice\\n',
  'per%cent%20and+plus',
  'sp ace and\ttab',
  'ünïcödé-und-mehr-ß',
  '-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n-----END PRIVATE KEY-----',
  '{"type":"service_account","key":"k"}',
  '$HOME;rm -rf;&&|',
  '<script>&amp;</script>',
  'a/b/c//d\\/e',
  '漢字のパスワードです',
  'emoji-😀-in-it',
];

export interface Canary {
  readonly name: string;
  readonly value: string;
}

/** Secrets of all shapes; their ends are random, so that none is found by chance. */
export function makeCanaries(random: Random): Canary[] {
  const shaped = beginnings.flatMap((beginning) =>
    Object.values(bodies).map((alphabet) => beginning + draw(alphabet, random)),
  );
  const odd = awkward.map((text) => text + draw(bodies.letters, random));
  return [...shaped, ...odd].map((value, at) => ({ name: `c${at}`, value }));
}

function draw(alphabet: string, random: Random): string {
  const signs = Array.from(
    { length: 24 },
    () => alphabet[between(random, 0, alphabet.length - 1)] ?? '',
  );
  return signs.join('');
}

/** The encodings in which a program may write a value. */
export function encodingsOf(value: string): Readonly<Record<string, string>> {
  const bytes = Buffer.from(value);
  const json = JSON.stringify(value).slice(1, -1);
  const strict = encodeURIComponent(value).replaceAll(
    /[!'()*]/g,
    (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  return {
    plain: value,
    json,
    ascii: json.replaceAll(
      /[\u0080-\uffff]/g,
      (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, '0')}`,
    ),
    nested: JSON.stringify(json).slice(1, -1),
    percent: encodeURIComponent(value),
    strict,
    lower: strict.replaceAll(/%../g, (code) => code.toLowerCase()),
    twice: encodeURIComponent(strict),
    form: encodeURIComponent(value).replaceAll('%20', '+'),
    base64: bytes.toString('base64').replace(/=+$/, ''),
    base64url: bytes.toString('base64url'),
    hex: bytes.toString('hex'),
  };
}
