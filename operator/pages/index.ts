import type { FastifyInstance } from 'fastify'
import type { NavigationEntry } from '../rendering/console.ts'
import { type AccountPageDependencies, addAccountPages } from './account/page.ts'
import { type AuditPageDependencies, addAuditPages } from './audit/page.ts'
import { addConfigurationPages, type ConfigurationPageDependencies } from './configuration/page.ts'
import { addLedgerPages, type LedgerPageDependencies } from './ledger/page.ts'
import { addNowPages, type NowPageDependencies } from './now/page.ts'
import { addPayerPages, type PayerPageDependencies } from './payer/page.ts'
import { addPaymentPages, type PaymentPageDependencies } from './payment/page.ts'
import { addProcessesPages, type ProcessesPageDependencies } from './processes/page.ts'
import { addProvidersPages, type ProvidersPageDependencies } from './providers/page.ts'
import { addQueuesPages, type QueuesPageDependencies } from './queues/page.ts'
import { addReviewPages, type ReviewPageDependencies } from './review/page.ts'
import { addSearchPages, type SearchPageDependencies } from './search/page.ts'
import { addSignIn, type SignInDependencies } from './sign-in/page.ts'

/** What all pages need; each page names its own ports. */
export interface PageDependencies
  extends
    SignInDependencies,
    NowPageDependencies,
    SearchPageDependencies,
    ReviewPageDependencies,
    PaymentPageDependencies,
    PayerPageDependencies,
    LedgerPageDependencies,
    ProvidersPageDependencies,
    QueuesPageDependencies,
    ProcessesPageDependencies,
    AuditPageDependencies,
    ConfigurationPageDependencies,
    AccountPageDependencies {}

/** The navigation, in its order. */
export const NAVIGATION: readonly NavigationEntry[] = [
  { label: 'Now', path: '/operator' },
  { label: 'Review', path: '/operator/review' },
  { label: 'Payments', path: '/operator/payments' },
  { label: 'Providers', path: '/operator/providers' },
  { label: 'Queues', path: '/operator/queues' },
  { label: 'Processes', path: '/operator/processes' },
  { label: 'Ledger', path: '/operator/ledger' },
  { label: 'Catalog', path: '/operator/catalog' },
  { label: 'Deployments', path: '/operator/deployments' },
  { label: 'Audit', path: '/operator/audit' },
]

/** Adds every page and action of the console. */
export function addPages(app: FastifyInstance, dependencies: PageDependencies): void {
  addSignIn(app, dependencies)
  addNowPages(app, dependencies)
  addSearchPages(app, dependencies)
  addReviewPages(app, dependencies)
  addPaymentPages(app, dependencies)
  addPayerPages(app, dependencies)
  addLedgerPages(app, dependencies)
  addProvidersPages(app, dependencies)
  addQueuesPages(app, dependencies)
  addProcessesPages(app, dependencies)
  addConfigurationPages(app, dependencies)
  addAuditPages(app, dependencies)
  addAccountPages(app, dependencies)
}
