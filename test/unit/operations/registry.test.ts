import { expect, test } from 'vitest'
import { ADAPTER_NAMES, type AdapterName } from '#shared/catalog/adapter-names.ts'
import { categories } from '#shared/catalog/categories.ts'
import { type OperationId, operationById, operations } from '#shared/operations/registry.ts'
import type { Execution } from '../../../workers/executions/execution.ts'
import { createExecutions, type Executions } from '../../../workers/executions/registry.ts'
import type { Adapter } from '../../../workers/providers/adapter.ts'
import { adapters } from '../../../workers/providers/registry.ts'

/*
 * The type checker covers this file: each `@ts-expect-error` fails `npm run check` as soon as the line below it
 * compiles.
 */

const execution: Execution = {
  heldBytes: () => 0,
  screenedTexts: () => [],
  prepare: () => Promise.reject(new Error('this execution only stands for a type')),
}

const allButTranscriptions = {
  createChatCompletion: execution,
  createMessage: execution,
  createImageGeneration: execution,
  createSpeech: execution,
}

// @ts-expect-error: createTranscription has no execution
export const missingExecution: Executions = allButTranscriptions

// @ts-expect-error: no operation has this id
export const misspelledOperation: OperationId = 'createSpeach'

// @ts-expect-error: the adapters of three vendors are missing
export const missingAdapters: Record<AdapterName, Adapter> = { gemini: adapters.gemini }

test.each(operations)('$id has an execution and a category', ({ id, category }) => {
  const executionOf = createExecutions({ fetchAll: () => Promise.reject(new Error('no image is fetched here')) })
  expect(executionOf(id)).toBeDefined()
  expect(categories.map((known) => known.id)).toContain(category)
})

test('operations have unique ids and paths', () => {
  expect(new Set(operations.map(({ id }) => id)).size).toBe(operations.length)
  expect(new Set(operations.map(({ path }) => path)).size).toBe(operations.length)
})

function pathsOf(categoryId: string): readonly string[] {
  return operations.filter(({ category }) => category === categoryId).map(({ path }) => path)
}

test('each category has exactly the specified endpoints, all of which are served [spec S5a, S5b]', () => {
  expect(Object.fromEntries(categories.map(({ id }) => [id, pathsOf(id)]))).toEqual({
    text_generation: ['/v1/chat/completions', '/v1/messages'],
    image_generation: ['/v1/images/generations'],
    text_to_speech: ['/v1/audio/speech'],
    speech_to_text: ['/v1/audio/transcriptions'],
  })
})

test('an unknown operation id throws', () => {
  expect(() => operationById('createVideo')).toThrow('there is no operation createVideo')
})

test('each adapter name has an adapter', () => {
  expect(Object.keys(adapters).toSorted()).toEqual([...ADAPTER_NAMES].toSorted())
})
