import { fileURLToPath } from 'node:url'
import { describeServer, PACKAGE } from '../description/generate/generated-files.ts'
import { bundleManifest } from '../description/generate/server-json.ts'
import { packBundle } from './pack-bundle.ts'

/** Packs the bundle of this version into a file, by default in the package's folder. */
const description = describeServer()
const { packageName, version } = description
const client = fileURLToPath(PACKAGE)
const [output = `${client}${packageName}-${version}.mcpb`] = process.argv.slice(2)
const root = fileURLToPath(new URL('../', PACKAGE))
await packBundle({ root, client, packageName, manifest: bundleManifest(description) }, output)
console.log(output)
