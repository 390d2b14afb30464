import { columnOf, table, type RowOf } from '../ledger/table.ts';
import type { InstallationStatus } from './package.ts';
import type { Provision } from './provision.ts';
import type { WebhookChange, WebhookDraft } from '../webhook/types.ts';

export interface InstallationFilter {
  readonly id?: string;
  readonly slug?: string;
  readonly withEnded?: boolean;
}

/** The content of an installation: a version, its configuration, and what it adds. */
export interface InstallationContent extends Pick<
  InstallationRow,
  'version' | 'hash' | 'config' | 'configChecksum' | 'provisioned'
> {
  readonly provisions: readonly Provision[];
}

export interface InstallationDraft
  extends InstallationContent, Pick<InstallationRow, 'id' | 'slug' | 'directiveId'> {
  /** The version of all installations at the time of the checks. */
  readonly plannedAt: number;
  readonly webhooks: WebhookChanges;
}

/** The changes of webhooks in the commit of the installation that provides them. */
export interface WebhookChanges {
  readonly opened: readonly WebhookDraft[];
  readonly changed: readonly Omit<WebhookChange, 'seenAt'>[];
  readonly closed: readonly string[];
}

export interface InstallationChange {
  readonly id: string;
  readonly slug: string;
  readonly directiveId: string;
  readonly plannedAt: number;
  readonly to: 'installed' | 'disabled' | 'uninstalled';
  /** The new content (default: unchanged). */
  readonly content?: InstallationContent;
  readonly webhooks: WebhookChanges;
  /** Plugins whose state and facts are deleted, too. */
  readonly purge?: readonly string[];
}

export const installationTable = table('package_installations', {
  id: 'text',
  slug: 'text',
  version: 'text',
  hash: 'text',
  status: columnOf<InstallationStatus>('text'),
  /** The installer's configuration as canonical JSON; credentials only as references. */
  config: 'text',
  configChecksum: 'text',
  /** JSON text: what it provides, in the format of the configuration file. */
  provisioned: 'text',
  /** Counts its changes, from 1. */
  revision: 'int',
  directiveId: 'text',
  installedBy: 'text',
  installedAt: 'time',
  updatedAt: 'time',
  lastError: 'text?',
});

export type InstallationRow = RowOf<typeof installationTable>;

/** The objects of installations, and when they were added and removed. */
export const provisionTable = table('installation_provisions', {
  kind: columnOf<Provision['kind']>('text'),
  name: 'text',
  installationId: 'text',
  provisionedAt: 'time',
  removedAt: 'time?',
});

export type ProvisionRow = RowOf<typeof provisionTable>;
