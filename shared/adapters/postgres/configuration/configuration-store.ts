import type { ConfigurationStore } from '#shared/operators/configuration-store.ts'
import type { Pool } from '../pool.ts'
import { countWaitingCalls } from './count-waiting-calls.ts'
import { discardDraft, findDraft, saveDraft } from './drafts.ts'
import { findNewest, findPublication, listPublications } from './find-publication.ts'
import { importFile } from './import-files.ts'
import { publish } from './publish.ts'
import { readLastCalls } from './read-last-calls.ts'
import { readWorkerKeys } from './read-worker-keys.ts'

/** Creates the store of publications and drafts, for the console and the commands. */
export function createConfigurationStore(pool: Pool): ConfigurationStore {
  return {
    findNewest: (kind) => findNewest(pool, kind),
    findPublication: (number) => findPublication(pool, number),
    listPublications: (kind, page) => listPublications(pool, kind, page),
    findDraft: (kind) => findDraft(pool, kind),
    saveDraft: (author, edit) => saveDraft(pool, author, edit),
    discardDraft: (author, kind, revision) => discardDraft(pool, author, kind, revision),
    publish: (author, publication) => publish(pool, author, publication),
    readLastCalls: (limit) => readLastCalls(pool, limit),
    readWorkerKeys: () => readWorkerKeys(pool),
    countWaitingCalls: () => countWaitingCalls(pool),
    importFile: (author, file) => importFile(pool, author, file),
  }
}
