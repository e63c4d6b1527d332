import { readFile } from 'node:fs/promises'
import type { Command } from 'commander'
import type { JsonValue } from '#shared/digests/canonical-json.ts'
import { type ConfigurationStore, createConfigurationStore } from '#shared/ledger/configuration/configuration-store.ts'
import { withConnection } from '#shared/ledger/with-connection.ts'
import type { PublicationKind } from '#shared/operators/configuration.ts'
import type { Draft } from '#shared/operators/publication.ts'
import {
  contentsOf,
  type InForce,
  lineOfDestination,
  newDestinations,
  publishContent,
  type ReviewedDestination,
  readInForce,
  reviewContent,
  whyNotPublished,
} from '#shared/operators/review-configuration.ts'
import { parseJson, problemOf } from '#shared/operators/validate-configuration.ts'
import { REASON, Refusal, type Run, toJson, UsageError } from '../command-line.ts'
import { type ConfigurationOptions, NEW_HOSTS, readOptions } from './options.ts'
import { type Rendered, renderBuiltIn, renderDraft, renderHistory, renderPublication, renderReview } from './render.ts'

const FIRST_PAGE = { limit: 50, after: null }

/** Adds the commands that show, edit and publish a configuration. */
export function addConfigurationCommands(command: Command, run: Run, kind: PublicationKind): Command {
  const does = (action: Action) =>
    run(async (flags, settings, given) => {
      const options = readOptions(flags, settings, given)
      const { databaseUrl: connectionString } = options
      const connection = { connectionString, applicationName: 'farebox configuration', maximumConnections: 2 }
      await withConnection(connection, (pool) => action(createConfigurationStore(pool), kind, options))
    })
  command.command('show [number]').description('print what is in force, or an earlier publication').action(does(show))
  command.command('history').description('list the publications, newest first').action(does(history))
  command
    .command('draft [file]')
    .description('make FILE the shared draft; without FILE print the draft')
    .option('--replace', 'replace the draft of somebody else')
    .action(does(draft))
  command.command('discard').description('delete the draft').action(does(discard))
  command.command('validate [file]').description('check FILE, or the draft').action(does(validate))
  command
    .command('diff [file]')
    .description('say what FILE, or the draft, changes, and what it would have changed about the last 1,000 calls')
    .action(does(diff))
  command
    .command('publish [file]')
    .description('publish FILE, or the draft')
    .requiredOption(...REASON)
    .option('--replace', 'publish a draft that was begun before the newest publication')
    .option(...NEW_HOSTS)
    .action(does(publish))
  command
    .command('import <file>')
    .description('publish FILE as the file that processes start with')
    .requiredOption(...REASON)
    .option(...NEW_HOSTS)
    .action(does(importFile))
  return command
}

type Action = (store: ConfigurationStore, kind: PublicationKind, options: ConfigurationOptions) => Promise<void>

async function show(store: ConfigurationStore, kind: PublicationKind, options: ConfigurationOptions): Promise<void> {
  const { given } = options
  if (given !== undefined && !/^[1-9]\d{0,17}$/.test(given)) throw new UsageError(`"${given}" is not a number`)
  const found = given === undefined ? await store.findNewest(kind) : await store.findPublication(BigInt(given))
  if (found === null && given === undefined && kind === 'catalog') return print(options, renderBuiltIn())
  if (found?.kind !== kind)
    throw new Refusal(
      given === undefined
        ? 'Nothing is published: the first API or worker imports its DEPLOYMENTS_FILE.'
        : `There is no ${kind} ${given}.`,
    )
  print(options, renderPublication(found))
}

async function history(store: ConfigurationStore, kind: PublicationKind, options: ConfigurationOptions): Promise<void> {
  print(options, renderHistory((await store.listPublications(kind, FIRST_PAGE)).entries))
}

async function draft(store: ConfigurationStore, kind: PublicationKind, options: ConfigurationOptions): Promise<void> {
  const current = await store.findDraft(kind)
  if (options.given === undefined) {
    if (!current) throw new Refusal('There is no draft.')
    return print(options, renderDraft(current))
  }
  const content = await readContent(options.given)
  const isOfOthers = current !== null && current.operator !== options.author.operator
  if (isOfOthers && !options.replaces)
    throw new Refusal(
      `${current.operator} edited the draft at ${current.editedAt.toISOString()}. Look at it with "draft", and replace it with --replace.`,
    )
  const basedOn = (await store.findNewest(kind))?.number ?? null
  const saved = await store.saveDraft(options.author, { kind, content, edited: current?.revision ?? null, basedOn })
  if (saved.outcome === 'newer_draft')
    throw new Refusal('Somebody else edited the draft just now. Look at it with "draft".')
  const problem = problemOf(kind, contentsOf(await readInForce(store), { [kind]: content }))
  print(options, {
    text: problem === null ? 'The draft is saved.' : `The draft is saved. It cannot be published yet:\n${problem}`,
    json: { outcome: 'saved', problem },
  })
}

async function discard(store: ConfigurationStore, kind: PublicationKind, options: ConfigurationOptions): Promise<void> {
  const { revision } = await requireDraft(store, kind)
  if (!(await store.discardDraft(options.author, kind, revision)))
    throw new Refusal('Somebody else edited the draft just now. Look at it with "draft".')
  print(options, { text: 'The draft is discarded.', json: { outcome: 'discarded' } })
}

async function validate(store: ConfigurationStore, kind: PublicationKind, options: ConfigurationOptions) {
  const { content } = await readGiven(store, kind, options)
  const problem = problemOf(kind, contentsOf(await readInForce(store), { [kind]: content }))
  if (problem !== null) throw new Refusal(problem)
  print(options, { text: 'The content is valid.', json: { outcome: 'valid' } })
}

async function diff(store: ConfigurationStore, kind: PublicationKind, options: ConfigurationOptions): Promise<void> {
  const { content } = await readGiven(store, kind, options)
  const review = await reviewContent(store, await readInForce(store), kind, content)
  if (review.outcome === 'invalid') throw new Refusal(review.problem)
  print(options, renderReview(review))
}

async function publish(store: ConfigurationStore, kind: PublicationKind, options: ConfigurationOptions): Promise<void> {
  const { content, draft } = await readGiven(store, kind, options)
  const inForce = await readInForce(store)
  const newest = inForce[kind]
  if (draft !== undefined && newest !== null && draft.basedOn !== newest.number && !options.replaces)
    throw new Refusal(
      `${newest.operator} published ${kind} ${newest.number} after this draft was begun, and publishing it undoes what that changed. Look at it with "diff", and publish it with --replace.`,
    )
  const { reason = '', confirmsDestinations } = options
  const published = await publishContent(store, options.author, {
    kind,
    content,
    reason,
    inForce,
    confirmsDestinations,
    ...(draft === undefined ? {} : { draft }),
  })
  if (published.outcome === 'unconfirmed') throw new Refusal(unconfirmed(published.destinations))
  if (published.outcome !== 'published') throw new Refusal(whyNotPublished(published))
  const { number, revision } = published
  print(options, {
    text: `${newHosts(inForce, kind, content)}Published as ${kind} ${number}, revision ${revision} of the configuration. All processes apply it within two seconds.`,
    json: { outcome: 'published', number: number.toString(), revision: revision.toString() },
  })
}

async function importFile(store: ConfigurationStore, kind: PublicationKind, options: ConfigurationOptions) {
  const content = await readContent(options.given ?? '')
  const inForce = await readInForce(store)
  const problem = problemOf(kind, contentsOf(inForce, { [kind]: content }))
  if (problem !== null) throw new Refusal(problem)
  // The first file is what a process would import by itself.
  const destinations = inForce.deployments === null ? [] : newDestinations(inForce, kind, content)
  if (destinations.length > 0 && !options.confirmsDestinations) throw new Refusal(unconfirmed(destinations))
  const imported = await store.importFile(options.author, { kind, content, reason: options.reason ?? '' })
  print(options, {
    text:
      imported.outcome === 'unchanged'
        ? `Nothing to do: ${kind} ${imported.number} is this file.`
        : `${newHosts(inForce, kind, content)}Imported as ${kind} ${imported.number}. All processes apply it within two seconds.`,
    json: { outcome: imported.outcome, number: imported.number.toString() },
  })
}

function unconfirmed(destinations: readonly ReviewedDestination[]): string {
  return `${whyNotPublished({ outcome: 'unconfirmed', destinations })} Add --new-hosts if that is meant.`
}

/** Returns a line for each key that goes to a new host. */
function newHosts(inForce: InForce, kind: PublicationKind, content: JsonValue): string {
  return newDestinations(inForce, kind, content)
    .map((destination) => `${lineOfDestination(destination)}\n`)
    .join('')
}

async function readGiven(
  store: ConfigurationStore,
  kind: PublicationKind,
  { given }: ConfigurationOptions,
): Promise<{ content: JsonValue; draft?: Draft }> {
  if (given !== undefined) return { content: await readContent(given) }
  const draft = await requireDraft(store, kind)
  return { content: draft.content, draft }
}

async function requireDraft(store: ConfigurationStore, kind: PublicationKind): Promise<Draft> {
  const draft = await store.findDraft(kind)
  if (!draft) throw new Refusal('There is no draft. Make one with "draft FILE", or name a FILE.')
  return draft
}

async function readContent(path: string): Promise<JsonValue> {
  const text = await readFile(path, 'utf8').catch((error: unknown) => {
    throw new UsageError(`${path} cannot be read (${error instanceof Error ? error.message : String(error)})`)
  })
  try {
    return parseJson(text, path)
  } catch (error) {
    throw new Refusal(error instanceof Error ? error.message : String(error))
  }
}

function print({ asJson }: ConfigurationOptions, { heading, text, json }: Rendered): void {
  if (heading !== undefined && !asJson) console.error(heading)
  console.log(asJson ? toJson(json) : text)
}
