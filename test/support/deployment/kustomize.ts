import { execFile } from 'node:child_process'
import { cp, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { parse, parseAllDocuments, stringify } from 'yaml'

const run = promisify(execFile)

/** The fields of every Kubernetes object; the others depend on its kind. */
export interface KubernetesObject {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: { readonly name: string; readonly namespace?: string }
}

/** Folders of `infra` with kustomizations. */
const FOLDERS = ['kubernetes', 'grafana']

/** Returns the objects that `kubectl kustomize` builds from a folder of `infra`. */
export async function renderKustomization(infra: string, folder: string): Promise<readonly KubernetesObject[]> {
  const copy = await mkdtemp(join(tmpdir(), 'farebox-kustomize-'))
  try {
    for (const name of FOLDERS) await cp(join(infra, name), join(copy, name), { recursive: true })
    const { stdout: version } = await run('kubectl', ['version', '--client'])
    if (!version.includes('Kustomize Version'))
      for (const file of (await readdir(copy, { recursive: true })).filter((path) =>
        path.endsWith('kustomization.yaml'),
      ))
        await nameBases(join(copy, file))
    const { stdout } = await run('kubectl', ['kustomize', join(copy, folder)])
    return parseAllDocuments(stdout).map((document) => document.toJS() as KubernetesObject)
  } finally {
    await rm(copy, { recursive: true, force: true })
  }
}

const isFolder = (path: string) => !path.endsWith('.yaml')

/** Moves folders among the resources to `bases`, as they were called in 2021, when Debian's kubectl was released. */
async function nameBases(file: string): Promise<void> {
  const kustomization = parse(await readFile(file, 'utf8')) as { resources?: string[] }
  const { resources = [], ...others } = kustomization
  await writeFile(
    file,
    stringify({
      ...others,
      bases: resources.filter(isFolder),
      resources: resources.filter((path) => !isFolder(path)),
    }),
  )
}
