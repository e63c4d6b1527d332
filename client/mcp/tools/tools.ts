import type { Tool } from '../tool.ts'
import { chatTool } from './chat.ts'
import { generateImageTool } from './generate-image.ts'
import { quoteTool } from './quote.ts'
import { speakTool } from './speak.ts'
import { transcribeTool } from './transcribe.ts'
import { walletTool } from './wallet.ts'

/** All tools, in the order in which they are listed. */
export const TOOLS: readonly Tool[] = [quoteTool, chatTool, generateImageTool, speakTool, transcribeTool, walletTool]
