import type { Timestamp } from '../base/clock.ts';
import type { InstallationStatus } from './package.ts';
import type { Provision } from './provision.ts';
import type { WebhookChange, WebhookDraft } from '../webhook/types.ts';

export interface InstallationFilter {
  readonly id?: string;
  readonly slug?: string;
  readonly withEnded?: boolean;
}

/** The content of an installation: a version, its configuration, and what it adds. */
export interface InstallationContent {
  readonly version: string;
  readonly hash: string;
  readonly config: string;
  readonly configChecksum: string;
  readonly provisioned: string;
  readonly provisions: readonly Provision[];
}

export interface InstallationDraft extends InstallationContent {
  readonly id: string;
  readonly slug: string;
  readonly directiveId: string;
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

export interface InstallationRow {
  readonly id: string;
  readonly slug: string;
  readonly version: string;
  readonly hash: string;
  readonly status: InstallationStatus;
  /** The installer's configuration as canonical JSON; credentials only as references. */
  readonly config: string;
  readonly configChecksum: string;
  /** JSON text: what it provides, in the format of the configuration file. */
  readonly provisioned: string;
  /** Counts its changes, from 1. */
  readonly revision: number;
  readonly directiveId: string;
  readonly installedBy: string;
  readonly installedAt: Timestamp;
  readonly updatedAt: Timestamp;
  readonly lastError: string | null;
}

/** An object of an installation, and when it was added and removed. */
export interface ProvisionRow extends Provision {
  readonly installationId: string;
  readonly provisionedAt: Timestamp;
  readonly removedAt: Timestamp | null;
}
