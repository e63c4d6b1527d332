import type { PlannedFile } from '../types.ts'
import { groupPacks, sharesOf } from './group-packs.ts'
import { stampsOf } from './measure-all.ts'
import type { MeasuredPack, MeasuredRecording } from './plan-cache.ts'
import { type Content, isMeasured, type MeasuredSource, plannedFile } from './planned-file.ts'
import { UploadPricer } from './price-uploads.ts'
import type { Job, PlanContext, PlannedJob, PlannedWork, RecordingWork, StatedJob } from './work.ts'

/** Contents that are one upload together. */
interface AssignedPack {
  readonly contents: readonly Content<MeasuredRecording>[]
  readonly pack: MeasuredPack
}

interface AssignWork extends PlanContext {
  readonly measured: readonly MeasuredSource[]
}

interface AssignPacks extends AssignWork {
  readonly contents: readonly Content[]
}

/** Decides which calls are made for which files: contents that are there twice once, clips in packs. */
export async function assignWork(context: AssignWork) {
  const { measured, options } = context
  const contents = contentsOf(context)
  const packs = options.pack ? await assignPacks({ ...context, contents }) : []
  const pricer = new UploadPricer({ ...context, ...(await secretAndCharges(context)) })
  const files = measured.map(plannedFile)
  const packed = new Map<Content, AssignedPack>(
    packs.flatMap((pack) => pack.contents.map((content) => [content, pack] as const)),
  )
  const jobs: PlannedJob[] = []
  const begun = new Set<AssignedPack>()
  for (const content of contents) {
    const pack = packed.get(content)
    if (pack === undefined) {
      if (content.targets.length > 0) jobs.push(fileJob(content, files, pricer))
    } else if (!begun.has(pack)) {
      begun.add(pack)
      jobs.push(packJob(pack, begun.size, files, pricer))
    }
  }
  return { files, jobs, again: doneAgain(jobs, context), means: { preparer: context.preparer, pricer } }
}

function contentsOf({ measured, options, request, finished }: AssignWork): Content[] {
  const bySha256 = new Map<string, MeasuredSource[]>()
  for (const source of measured) {
    const { recording } = source
    if (recording === undefined) continue
    const same = bySha256.get(recording.sha256)
    if (same === undefined) bySha256.set(recording.sha256, [source])
    else same.push(source)
  }
  return [...bySha256.values()].flatMap((sources): Content[] => {
    const [first] = sources
    if (first?.recording === undefined) return []
    const { recording } = first
    const call = { sha256: recording.sha256, request: request.callDigest }
    const isAgain = options.again && finished.isFinished(call.sha256, call.request)
    const occurrence = finished.occurrenceOf(call) + (isAgain ? 1 : 0)
    return [{ recording, occurrence, first, targets: sources.filter(({ isToDo }) => isToDo) }]
  })
}

function doneAgain(jobs: readonly PlannedJob[], { finished, request }: AssignWork): PlannedWork['again'] {
  const works = jobs.flatMap((job): readonly (RecordingWork | StatedJob)[] => (job.kind === 'pack' ? job.clips : [job]))
  return works
    .map(({ recording: { sha256 }, occurrence }) => ({ sha256, occurrence }))
    .filter(({ sha256, occurrence }) => occurrence > finished.occurrenceOf({ sha256, request: request.callDigest }))
}

async function secretAndCharges({ farebox, onEvent }: AssignWork) {
  const { secret, source } = await farebox.keySecret()
  if (source === 'journal')
    onEvent({
      event: 'warning',
      code: 'keys_of_journal',
      text: 'This wallet signs differently each time: deleting the journal would lose what keeps calls from being paid twice.',
    })
  const charged = new Map<string, bigint>()
  for (const receipt of farebox.receipts()) charged.set(receipt.key, (charged.get(receipt.key) ?? 0n) + receipt.charged)
  return { secret, charged }
}

/** Sets the state of the targets; the first of them is the one that is billed. */
function workFor<Recording>(
  { recording, occurrence, targets, first }: Content<Recording>,
  files: PlannedFile[],
  billed: Partial<PlannedFile>,
) {
  const [owner, ...others] = targets
  if (owner !== undefined) update(files, owner, billed)
  for (const other of others)
    update(files, other, { state: 'duplicate', duplicateOf: owner?.surveyed.source.label ?? '' })
  const fileAt = ({ index }: MeasuredSource) => files[index] as PlannedFile
  return {
    file: fileAt(owner ?? first),
    recording,
    occurrence,
    targets: targets.map(fileAt),
  }
}

function fileJob(content: Content, files: PlannedFile[], pricer: UploadPricer): PlannedJob {
  const { recording, occurrence } = content
  if ('statedMs' in recording) {
    const price = pricer.estimate(recording.estimates)
    return { kind: 'stated', ...workFor({ ...content, recording }, files, { price }) }
  }
  const { uploads, price, alreadyPaid } = pricer.price(recording.uploads, occurrence)
  return { kind: 'file', ...workFor({ ...content, recording }, files, { price, alreadyPaid }), uploads }
}

function packJob({ contents, pack }: AssignedPack, number: number, files: PlannedFile[], pricer: UploadPricer): Job {
  // All clips of a pack that is done another time are; so the highest occurrence names the call.
  const occurrence = Math.max(...contents.map((content) => content.occurrence))
  const { uploads, price, alreadyPaid } = pricer.price([pack.upload], occurrence)
  const [upload] = uploads
  if (upload === undefined) throw new RangeError('a pack is one upload')
  const billed = contents.map(({ recording, targets }) =>
    targets.length === 0 ? 0 : (recording.uploads[0]?.durationMs ?? 0),
  )
  const prices = sharesOf(price, billed)
  const paid = sharesOf(alreadyPaid, billed)
  const clips = contents.map((content, index) => {
    return workFor({ ...content, occurrence }, files, {
      pack: number,
      price: prices[index] ?? 0n,
      alreadyPaid: paid[index] ?? 0n,
    })
  })
  return { kind: 'pack', number, upload, spans: pack.spans, clips }
}

function update(files: PlannedFile[], { index }: MeasuredSource, changes: Partial<PlannedFile>): void {
  files[index] = { ...(files[index] as PlannedFile), ...changes }
}

/** Forms packs: those that an earlier run began as they were, and new ones of the other clips. */
async function assignPacks(context: AssignPacks): Promise<AssignedPack[]> {
  const { contents, terms, preparer } = context
  const begun = assignBegun(context)
  const taken = new Set<Content>(begun.flatMap((pack) => pack.contents))
  const rest = contents.filter((content) => !taken.has(content) && content.targets.length > 0)
  const byRecording = new Map(rest.filter(isMeasured).map((content) => [content.recording, content]))
  const packs = [...begun]
  for (const group of groupPacks([...byRecording.keys()], terms)) {
    const own = group.flatMap((recording) => byRecording.get(recording) ?? [])
    packs.push({ contents: own, pack: await preparer.measurePack(group) })
  }
  return packs
}

function assignBegun({ contents, measured, request, begunPacks }: AssignPacks): AssignedPack[] {
  if (begunPacks === undefined) return []
  const byPath = new Map(measured.map((source) => [source.surveyed.source.path, source]))
  const bySha256 = new Map(contents.filter(isMeasured).map((content) => [content.recording.sha256, content]))
  const packs = begunPacks.among(stampsOf(measured.map(({ surveyed }) => surveyed)), request.callDigest)
  return packs.flatMap(({ clips, upload, spans }): AssignedPack[] => {
    const own = clips.flatMap(({ path }) => bySha256.get(byPath.get(path)?.recording?.sha256 ?? '') ?? [])
    const isUsable = own.length === clips.length && own.some(({ targets }) => targets.length > 0)
    return isUsable ? [{ contents: own, pack: { upload, spans } }] : []
  })
}
