import { DuctileError } from '../base/errors.ts';
import { isObject, type JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import {
  createWebhookType,
  deleteWebhookType,
  rotateWebhookType,
  updateWebhookType,
  type NewWebhook,
  type WebhookChoice,
  type WebhookEdit,
  type WebhookRotation,
} from '../directive/webhook.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { WebhookChange, WebhookRow } from '../ledger/webhooks.ts';
import { hookEntry, toHook, type Hook } from '../webhook/hook.ts';
import type { DirectiveDefinition } from './directive-definition.ts';
import type { Directives } from './directives.ts';
import { findPipeline } from './run-door.ts';
import type { Generation } from './generation.ts';
import type { HookDoor } from './hooks.ts';
import { replayDeliveryDirective, type DeliverySeams } from './hook-replay.ts';
import { describeTarget, makeHookId, makeSecret, rotateSecrets } from './hook-secrets.ts';
import { GLOBAL_TOKEN, openSecrets, toEntry, type KeptSecret } from './hook-store.ts';
import type { TenantSelf } from './tenants.ts';
import { guardFirstKey, purposes, type Vault } from './vault.ts';

export interface WebhookSeams extends Omit<DeliverySeams, 'vault'> {
  readonly vault: Vault;
  /** Whose webhooks they are; undefined for those of the root ledger. */
  readonly tenant: Pick<TenantSelf, 'addKey' | 'dropKey'> | undefined;
}

export function registerWebhookDirectives(directives: Directives, seams: WebhookSeams): void {
  const keepToken = async (secret: string, actor: string): Promise<void> => {
    const params = { name: GLOBAL_TOKEN };
    const { error } = await directives.direct({ type: 'credential.set', params, secret, actor });
    if (error !== null) throw new DuctileError('DIRECTIVE_FAILED', error);
  };
  directives.registerDirective(createDirective(seams, keepToken));
  directives.registerDirective(updateDirective(seams));
  directives.registerDirective(rotateDirective(seams));
  directives.registerDirective(deleteDirective(seams));
  directives.registerDirective(replayDeliveryDirective(seams));
}

function createDirective(
  seams: WebhookSeams,
  keepToken: (secret: string, actor: string) => Promise<void>,
): DirectiveDefinition<NewWebhook> {
  const { ledger, vault, hooks, tenant } = seams;
  return {
    ...createWebhookType,
    resolve: ({ id = makeHookId(), ...rest }) => ({ id, ...rest }),
    async plan({ id = '', settings, credential }) {
      if ((await ledger.webhook(id)) !== undefined) throw taken(id);
      await requireCredential(credential, hooks);
      const mode = modeOf(settings);
      const hook = checkEntry(id, settings, secretsFor(settings, credential), seams);
      const what = describeTarget(hook);
      return [`A webhook would be opened at /hooks/${id}, for ${what}, verified as ${mode}.`];
    },
    async prepare({ id = '', settings, credential }, { actor }) {
      await guardFirstKey(vault, ledger);
      const kept = secretsFor(settings, credential);
      const reveal: JsonObject = {};
      const [own] = kept;
      if (own !== undefined && credential === undefined) reveal['secret'] = own.secret;
      if (own === undefined && (await hooks.store.credential(GLOBAL_TOKEN)) === undefined) {
        const token = makeSecret('bearer');
        await keepToken(token, actor);
        reveal['global_token'] = token;
      }
      if (tenant !== undefined && !(await tenant.addKey('hook', id))) throw taken(id);
      const sealed = kept.length === 0 ? null : seal(id, kept, vault);
      const webhook = { id, settings: JSON.stringify(settings), sealed };
      return { work: { kind: 'webhook.create', webhook }, reveal };
    },
    after: () => hooks.store.refresh(),
  };
}

function updateDirective(seams: WebhookSeams): DirectiveDefinition<WebhookEdit> {
  const { ledger, vault, hooks } = seams;
  const change = async ({ id, changes }: WebhookEdit): Promise<WebhookChange> => {
    const row = await mustFind(id, ledger);
    const merged = { ...(JSON.parse(row.settings) as JsonObject), ...changes };
    const left = Object.entries(merged).filter(([, value]) => value !== null);
    const settings = Object.fromEntries(left);
    checkEntry(id, settings, openSecrets(row, vault), seams);
    return { id, seenAt: row.updatedAt, settings: JSON.stringify(settings) };
  };
  return {
    ...updateWebhookType,
    async plan(edit) {
      await change(edit);
      const keys = Object.keys(edit.changes).join(', ');
      return [`${keys} of the webhook ${edit.id} would be changed, for what comes from then on.`];
    },
    prepare: async (edit) => ({ work: { kind: 'webhook.change', change: await change(edit) } }),
    after: () => hooks.store.refresh(),
  };
}

function rotateDirective(seams: WebhookSeams): DirectiveDefinition<WebhookRotation> {
  const { ledger, vault, hooks } = seams;
  return {
    ...rotateWebhookType,
    async plan({ id, credential, keep_old_ms: keepMs = 0 }) {
      await requireCredential(credential, hooks);
      await mustFind(id, ledger);
      const old = keepMs === 0 ? 'would not be good any more' : 'would stay good for a while';
      return [`The webhook ${id} would get another secret; the one of now ${old}.`];
    },
    async prepare({ id, credential, keep_old_ms: keepMs = 0 }) {
      await guardFirstKey(vault, ledger);
      const row = await mustFind(id, ledger);
      const settings = JSON.parse(row.settings) as JsonObject;
      const secret = refer(credential) ?? makeSecret(modeOf(settings));
      const kept = rotateSecrets(openSecrets(row, vault), secret, keepMs, Date.now());
      if (kept.length > limits.hookSecretsMax) throw tooMany();
      checkEntry(id, settings, kept, seams);
      const change = { id, seenAt: row.updatedAt, sealed: seal(id, kept, vault) };
      const reveal = credential === undefined ? { secret } : {};
      return { work: { kind: 'webhook.change', change }, reveal };
    },
    after: () => hooks.store.refresh(),
  };
}

function deleteDirective(seams: WebhookSeams): DirectiveDefinition<WebhookChoice> {
  const { ledger, hooks, tenant } = seams;
  return {
    ...deleteWebhookType,
    async plan({ id }) {
      await mustFind(id, ledger);
      return [`The webhook ${id} would be closed; what came through it stays on record.`];
    },
    prepare: ({ id }) => ({ work: { kind: 'webhook.delete', hookId: id } }),
    async after({ id }) {
      await hooks.store.refresh();
      await tenant?.dropKey('hook', id);
    },
  };
}

function seal(id: string, kept: readonly KeptSecret[], vault: Vault) {
  return vault.seal(JSON.stringify(kept), purposes.webhook(id));
}

function modeOf(settings: Readonly<JsonObject>): string {
  const { auth_mode: mode } = settings;
  return typeof mode === 'string' ? mode : 'bearer';
}

/** A bearer without a token of its own goes by the one of all of them. */
function secretsFor(settings: Readonly<JsonObject>, credential: string | undefined): KeptSecret[] {
  const referred = refer(credential);
  if (referred !== undefined) return [{ secret: referred }];
  const mode = modeOf(settings);
  return mode === 'bearer' ? [] : [{ secret: makeSecret(mode) }];
}

function refer(credential: string | undefined): string | undefined {
  return credential === undefined ? undefined : `credential:${credential}`;
}

async function requireCredential(name: string | undefined, { store }: HookDoor): Promise<void> {
  if (name === undefined || (await store.credential(name)) !== undefined) return;
  const message = `there is no credential ${name}`;
  throw new DuctileError('CREDENTIAL_NOT_FOUND', message, { place: 'credential' });
}

/** Throws what is wrong with it, in the words of its keys. */
function checkEntry(
  id: string,
  settings: Readonly<JsonObject>,
  kept: readonly KeptSecret[],
  { current }: WebhookSeams,
): Hook {
  if (settings['mode'] !== undefined) {
    const message = 'mode starts an agent, and agents are not there yet';
    const hint = 'Name a plugin, a pipeline or a signal instead.';
    throw new DuctileError('INPUT_INVALID', message, { place: 'mode', hint });
  }
  const read = hookEntry.safeParse(toEntry(id, settings, kept));
  if (!read.success) {
    const [issue] = read.error.issues;
    const place = issue?.path.join('.') ?? '';
    const params = issue?.code === 'custom' ? issue.params : undefined;
    const hint: unknown = isObject(params) ? params['hint'] : undefined;
    throw new DuctileError('INPUT_INVALID', `${place} ${issue?.message ?? 'is wrong'}`.trim(), {
      place,
      ...(typeof hint === 'string' ? { hint } : {}),
    });
  }
  const { hook } = toHook(read.data);
  checkTarget(hook, current());
  return hook;
}

function checkTarget({ target }: Hook, { catalog, pipelines }: Generation): void {
  if (target.kind === 'pipeline') findPipeline(target.pipeline, pipelines);
  if (target.kind !== 'command') return;
  const plugin = catalog.plugins.get(target.plugin);
  if (plugin === undefined) {
    throw new DuctileError('PLUGIN_NOT_FOUND', `there is no plugin ${target.plugin}`);
  }
  if (plugin.manifest.commands[target.command] !== undefined) return;
  const message = `the plugin ${plugin.name} has no command ${target.command}`;
  throw new DuctileError('COMMAND_NOT_FOUND', message);
}

async function mustFind(id: string, ledger: Pick<Ledger, 'webhook'>): Promise<WebhookRow> {
  const found = await ledger.webhook(id);
  if (found !== undefined) return found;
  throw new DuctileError('WEBHOOK_NOT_FOUND', `there is no webhook ${id}`, { place: 'id' });
}

function taken(id: string): DuctileError {
  return new DuctileError('WEBHOOK_EXISTS', `there is a webhook ${id} already`, { place: 'id' });
}

function tooMany(): DuctileError {
  const message = `more than ${limits.hookSecretsMax} secrets would be good at once`;
  return new DuctileError('INPUT_INVALID', message, { place: 'keep_old' });
}
