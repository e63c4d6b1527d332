import { mkdir, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describeServer, generatedFiles, PACKAGE } from './generated-files.ts'

/** Writes all files that follow from the description of the server. */
for (const [path, text] of generatedFiles(describeServer())) {
  const file = fileURLToPath(new URL(path, PACKAGE))
  await mkdir(dirname(file), { recursive: true })
  await writeFile(file, text)
}
