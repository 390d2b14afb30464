import type { Timestamp } from '../base/clock.ts';
import type { InstallationStatus } from './package.ts';
import type { Provision } from './provision.ts';
import type { WebhookChange, WebhookDraft } from '../webhook/types.ts';

export interface InstallationFilter {
  readonly id?: string;
  readonly slug?: string;
  readonly withEnded?: boolean;
}

/** What an installation is made of, and what it brings. */
export interface InstallationContent {
  readonly version: string;
  readonly hash: string;
  readonly config: string;
  readonly configChecksum: string;
  readonly provisioned: string;
  readonly provisions: readonly Provision[];
}

/** `plannedAt`: the version of all installations that its checks were made against. */
export interface InstallationDraft extends InstallationContent {
  readonly id: string;
  readonly slug: string;
  readonly directiveId: string;
  readonly plannedAt: number;
  readonly webhooks: WebhookMoves;
}

/** What becomes of webhooks together with the installation that brings them. */
export interface WebhookMoves {
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
  /** What it becomes; what it is, when undefined. */
  readonly content?: InstallationContent;
  readonly webhooks: WebhookMoves;
  /** Plugins whose state and facts go with it. */
  readonly purge?: readonly string[];
}

export interface InstallationRow {
  readonly id: string;
  readonly slug: string;
  readonly version: string;
  readonly hash: string;
  readonly status: InstallationStatus;
  /** What whoever installed it said, as canonical JSON; credentials by reference only. */
  readonly config: string;
  readonly configChecksum: string;
  /** What it provisioned, in the words of the configuration file, as JSON. */
  readonly provisioned: string;
  /** Counts its changes, from 1. */
  readonly revision: number;
  readonly directiveId: string;
  readonly installedBy: string;
  readonly installedAt: Timestamp;
  readonly updatedAt: Timestamp;
  readonly lastError: string | null;
}

/** One thing that an installation brought, and under which name. */
export interface Provenance extends Provision {
  readonly installationId: string;
  readonly provisionedAt: Timestamp;
  readonly removedAt: Timestamp | null;
}
