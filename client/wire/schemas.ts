// Generated from the service's OpenAPI document by npm run generate.

export type Error = {
  readonly "type": "error"
  readonly "error": {
    readonly "type": string
    readonly "message": string
    readonly "param": string | null
    readonly "code": string
    readonly "payment": "none" | "authorized" | "settled" | "unknown"
    readonly "retry": "never" | "same_request" | "new_payment"
  }
  readonly "request_id": string
}

export type PaymentRequired = {
  readonly "error": "Payment Required"
  readonly "message": string
  readonly "price": {
    readonly "amount": string
    readonly "currency": "USDC"
    readonly "type": "maximum"
  }
  readonly "paymentInfo": {
    readonly "x402Version": 2
    readonly "scheme": "upto"
    readonly "network": string
    readonly "asset": string
  }
  readonly "x402Version"?: 2 | undefined
  readonly "accepts"?: readonly (Readonly<Record<string, unknown>>)[] | undefined
  readonly "resource"?: Readonly<Record<string, unknown>> | undefined
  readonly "extensions"?: Readonly<Record<string, unknown>> | undefined
  readonly "code"?: string | undefined
  readonly "payment"?: string | undefined
  readonly "retry"?: string | undefined
  readonly "permit"?: {
    readonly "submit": {
      readonly "method": "POST"
      readonly "url": string
    } | null
    readonly "typed_data": {
      readonly "domain": Readonly<Record<string, unknown>>
      readonly "types": Readonly<Record<string, readonly ({
        readonly "name": string
        readonly "type": string
      })[]>>
      readonly "primaryType": "Permit"
      readonly "message": Readonly<Record<string, string>>
    }
  } | undefined
  readonly "approval"?: {
    readonly "to": string
    readonly "data": string
  } | undefined
  readonly "request_id"?: string | undefined
}

export type CreateChatCompletionRequest = {
  readonly "model": "textmodel-3.6-flash" | "textmodel-3.5-flash-lite" | "textmodel-3.5-flash" | "textmodel-3.1-flash-lite" | "textmodel-2.5-flash" | "textmodel-2.5-pro" | "textmodel-2.5-flash-lite"
  readonly "messages": readonly ({
    readonly "role": string
    readonly "content": string | readonly ({
      readonly "type": "text"
      readonly "text": string
      readonly [name: string]: unknown
    } | {
      readonly "type": "image_url"
      readonly "image_url": {
        readonly "url": string
        readonly [name: string]: unknown
      }
      readonly [name: string]: unknown
    } | {
      readonly "type": "refusal"
      readonly "refusal": string
      readonly [name: string]: unknown
    })[] | null
    readonly [name: string]: unknown
  })[]
  readonly "max_tokens"?: number | undefined
  readonly "stream"?: false | undefined
  readonly "tools"?: readonly (unknown)[] | undefined
  readonly "response_format"?: unknown
  readonly "n"?: 1 | undefined
  readonly "include_thought_signatures"?: boolean | undefined
  readonly [name: string]: unknown
}

export type CreateChatCompletionResult = {
  readonly "id": string
  readonly "object": "chat.completion"
  readonly "created": number
  readonly "model": string
  readonly "choices": readonly ({
    readonly "index": number
    readonly "message": {
      readonly "role": "assistant"
      readonly "content": string | null
      readonly "refusal": string | null
      readonly "tool_calls"?: readonly ({
        readonly "id": string
        readonly "type": "function"
        readonly "function": {
          readonly "name": string
          readonly "arguments": string
          readonly [name: string]: unknown
        }
        readonly [name: string]: unknown
      })[] | undefined
      readonly "thought_signatures"?: readonly (string)[] | undefined
      readonly [name: string]: unknown
    }
    readonly "finish_reason": "stop" | "length" | "tool_calls" | "content_filter"
    readonly "stop_reason"?: string | null | undefined
    readonly "logprobs": null
    readonly [name: string]: unknown
  })[]
  readonly "usage": {
    readonly "prompt_tokens": number
    readonly "completion_tokens": number
    readonly "total_tokens": number
    readonly "prompt_tokens_details"?: {
      readonly "cached_tokens": number
      readonly "cache_write_tokens": number
      readonly [name: string]: unknown
    } | undefined
    readonly "completion_tokens_details": {
      readonly "reasoning_tokens": number
      readonly [name: string]: unknown
    }
    readonly [name: string]: unknown
  }
  readonly [name: string]: unknown
}

export type CreateMessageRequest = {
  readonly "model": "textmodel-3.6-flash" | "textmodel-3.5-flash-lite" | "textmodel-3.5-flash" | "textmodel-3.1-flash-lite" | "textmodel-2.5-flash" | "textmodel-2.5-pro" | "textmodel-2.5-flash-lite"
  readonly "messages": readonly ({
    readonly "role": string
    readonly "content": string | readonly ({
      readonly "type": "text"
      readonly "text": string
      readonly [name: string]: unknown
    } | {
      readonly "type": "image"
      readonly "source": {
        readonly "type": "base64"
        readonly "media_type": "image/png" | "image/jpeg" | "image/jpg" | "image/webp" | "image/gif"
        readonly "data": string
        readonly [name: string]: unknown
      } | {
        readonly "type": "url"
        readonly "url": string
        readonly [name: string]: unknown
      }
      readonly [name: string]: unknown
    } | {
      readonly "type": "tool_use"
      readonly "id": string
      readonly "name": string
      readonly "input"?: Readonly<Record<string, unknown>> | undefined
      readonly [name: string]: unknown
    } | {
      readonly "type": "tool_result"
      readonly "tool_use_id": string
      readonly "content"?: string | readonly ({
        readonly "type": "text"
        readonly "text": string
        readonly [name: string]: unknown
      } | {
        readonly "type": "image"
        readonly "source": {
          readonly "type": "base64"
          readonly "media_type": "image/png" | "image/jpeg" | "image/jpg" | "image/webp" | "image/gif"
          readonly "data": string
          readonly [name: string]: unknown
        } | {
          readonly "type": "url"
          readonly "url": string
          readonly [name: string]: unknown
        }
        readonly [name: string]: unknown
      })[] | undefined
      readonly [name: string]: unknown
    } | {
      readonly "type": "thinking"
      readonly [name: string]: unknown
    } | {
      readonly "type": "redacted_thinking"
      readonly [name: string]: unknown
    })[]
    readonly [name: string]: unknown
  })[]
  readonly "max_tokens": number
  readonly "stream"?: false | undefined
  readonly "tools"?: readonly (unknown)[] | undefined
  readonly "system"?: string | readonly ({
    readonly "type": "text"
    readonly "text": string
    readonly [name: string]: unknown
  })[] | undefined
  readonly "include_thought_signatures"?: boolean | undefined
  readonly [name: string]: unknown
}

export type CreateMessageResult = {
  readonly "id": string
  readonly "type": "message"
  readonly "role": "assistant"
  readonly "model": string
  readonly "content": readonly ({
    readonly "type": "text"
    readonly "text": string
    readonly [name: string]: unknown
  } | {
    readonly "type": "tool_use"
    readonly "id": string
    readonly "name": string
    readonly "input": Readonly<Record<string, unknown>>
    readonly [name: string]: unknown
  })[]
  readonly "stop_reason": "end_turn" | "max_tokens" | "tool_use" | "refusal" | "stop_sequence"
  readonly "stop_sequence": string | null
  readonly "usage": {
    readonly "input_tokens": number
    readonly "cache_creation_input_tokens"?: number | undefined
    readonly "cache_read_input_tokens"?: number | undefined
    readonly "output_tokens": number
    readonly [name: string]: unknown
  }
  readonly "thought_signatures"?: readonly (string)[] | undefined
  readonly [name: string]: unknown
}

export type CreateImageGenerationRequest = {
  readonly "model": "textmodel-3.1-flash-lite-image"
  readonly "prompt": string
  readonly "n"?: 1 | undefined
  readonly "image_size"?: "1K" | undefined
  readonly "aspect_ratio"?: "1:1" | undefined
  readonly "size"?: "1024x1024" | undefined
  readonly "response_format"?: "url" | "b64_json" | undefined
}

export type CreateImageGenerationResult = {
  readonly "created": number
  readonly "model": "textmodel-3.1-flash-lite-image"
  readonly "image_size": "1K"
  readonly "aspect_ratio": "1:1"
  readonly "data": readonly ({
    readonly "url": string
    readonly "backed_up": true
    readonly "url_expires_at": string
    readonly "url_retention_days": 7
    readonly "b64_json"?: string | undefined
    readonly "revised_prompt"?: string | undefined
  })[]
  readonly "price": {
    readonly "amount": string
    readonly "currency": "USD"
  }
}

export type CreateSpeechRequest = {
  readonly "model": "speechvendor/flash-v2.5"
  readonly "input": string
  readonly "voice"?: "darian" | "talia" | "elara" | "baxter" | "eldrin" | "kellan" | "elowen" | "kaelen" | "lawrence" | "alicia" | "maisie" | "warren" | "jade" | "eddie" | "caleb" | "sawyer" | "finley" | "florence" | "wyatt" | "bella" | undefined
  readonly "response_format"?: "mp3" | undefined
  readonly "speed"?: number | undefined
}

export type CreateSpeechResult = {
  readonly "id": string
  readonly "created": number
  readonly "model": "speechvendor/flash-v2.5"
  readonly "data": readonly ({
    readonly "url": string
    readonly "format": "mp3"
    readonly "content_type": string
    readonly "bytes": number
    readonly "duration_ms": number
    readonly "characters": number
    readonly "expires_at": string
    readonly "backed_up": true
  })[]
  readonly "usage": {
    readonly "input_characters": number
  }
}

export type CreateTranscriptionRequest = {
  readonly "audio_base64": string
  readonly "model": "speechvendor/scribe-v2"
  readonly "file_format"?: "other" | undefined
  readonly "language"?: string | undefined
  readonly "diarize"?: boolean | undefined
  readonly "num_speakers"?: number | undefined
  readonly "timestamps"?: "none" | "word" | "character" | undefined
  readonly "tag_audio_events"?: boolean | undefined
  readonly "response_format"?: "json" | "verbose_json" | undefined
}

export type CreateTranscriptionFormRequest = {
  readonly "file": string
  readonly "model": "speechvendor/scribe-v2"
  readonly "file_format"?: "other" | undefined
  readonly "language"?: string | undefined
  readonly "diarize"?: boolean | undefined
  readonly "num_speakers"?: number | undefined
  readonly "timestamps"?: "none" | "word" | "character" | undefined
  readonly "tag_audio_events"?: boolean | undefined
  readonly "response_format"?: "json" | "verbose_json" | undefined
}

export type CreateTranscriptionResult = {
  readonly "id": string
  readonly "created": number
  readonly "model": string
  readonly "text": string
  readonly "language"?: string | undefined
  readonly "language_probability_millionths"?: number | undefined
  readonly "usage": {
    readonly "input_audio_ms": number
  }
  readonly "words"?: readonly ({
    readonly "word": string
    readonly "start": number
    readonly "end": number
    readonly "type": "word" | "spacing" | "audio_event"
    readonly "speaker"?: string | undefined
    readonly "characters"?: readonly ({
      readonly "text": string
      readonly "start": number
      readonly "end": number
    })[] | undefined
  })[] | undefined
  readonly "task"?: "transcribe" | undefined
  readonly "duration"?: number | undefined
}

export type ModelList = {
  readonly "object": "list"
  readonly "catalog_version": string
  readonly "categories": readonly ({
    readonly "id": "text_generation" | "image_generation" | "text_to_speech" | "speech_to_text"
    readonly "object": "model_category"
    readonly "label": string
    readonly "description": string
    readonly "status": "available"
    readonly "endpoints": readonly ({
      readonly "method": "POST"
      readonly "path": string
      readonly "compatibility": string
    })[]
    readonly "model_ids": readonly (string)[]
  })[]
  readonly "data": readonly (Model)[]
  readonly "has_more": false
  readonly "first_id": string | null
  readonly "last_id": string | null
}

export type PricingCatalog = {
  readonly "object": "pricing_catalog"
  readonly "catalog_version": string
  readonly "service_fee_basis_points": number
  readonly "promotion": string | null
  readonly "data": readonly ({
    readonly "model": string
    readonly "category": "text_generation" | "image_generation" | "text_to_speech" | "speech_to_text"
    readonly "currency": "USD"
    readonly "billing_mode": "measured_tokens" | "per_image_specification" | "measured_characters" | "measured_audio_duration"
    readonly "minimum_charge_usd": string
    readonly "maximum_charge_usd": string
    readonly "gas_minimum_charge_usd"?: string | undefined
    readonly "input_per_million_tokens"?: string | undefined
    readonly "cached_input_per_million_tokens"?: string | undefined
    readonly "cache_write_per_million_tokens"?: string | undefined
    readonly "output_per_million_tokens"?: string | undefined
    readonly "size"?: string | undefined
    readonly "aspect_ratio"?: string | undefined
    readonly "supported_image_sizes"?: readonly (string)[] | undefined
    readonly "supported_aspect_ratios"?: readonly (string)[] | undefined
    readonly "price_per_successful_image_usd"?: string | undefined
    readonly "price_per_thousand_characters_usd"?: string | undefined
    readonly "maximum_characters"?: number | undefined
    readonly "response_formats"?: readonly (string)[] | undefined
    readonly "default_response_format"?: string | undefined
    readonly "default_voice"?: string | undefined
    readonly "url_retention_hours"?: number | undefined
    readonly "price_per_audio_hour_usd"?: string | undefined
    readonly "minimum_audio_duration_ms"?: string | undefined
    readonly "maximum_audio_duration_ms"?: string | undefined
    readonly "maximum_audio_bytes"?: number | undefined
    readonly "accepted_formats"?: readonly (string)[] | undefined
    readonly "supported_options"?: {
      readonly "diarize"?: readonly (boolean)[] | undefined
      readonly "tag_audio_events"?: readonly (boolean)[] | undefined
      readonly "timestamps"?: readonly ("none" | "word" | "character")[] | undefined
      readonly "response_format"?: readonly ("json" | "verbose_json")[] | undefined
      readonly [name: string]: unknown
    } | undefined
    readonly [name: string]: unknown
  })[]
}

export type VoiceList = {
  readonly "object": "list"
  readonly "defaults": Readonly<Record<string, string>>
  readonly "data": readonly ({
    readonly "id": string
    readonly "name": string
    readonly "description": string
    readonly "provider": string
    readonly "languages": readonly (string)[]
    readonly "models": readonly (string)[]
    readonly "default_for_models": readonly (string)[]
    readonly "retirement_date": string | null
  })[]
}

export type Catalog = {
  readonly "object": "catalog"
  readonly "catalog_version": string
  readonly "service_fee_basis_points": number
  readonly "promotion": string | null
  readonly "pricing": readonly (PricingCatalog["data"][number])[]
  readonly "models": readonly (Model)[]
  readonly "voices": readonly (VoiceList["data"][number])[]
}

export type WalletBalance = {
  readonly "object": "wallet_balance"
  readonly "network": "eip155:8453"
  readonly "asset": string
  readonly "currency": "USDC"
  readonly "wallet": string
  readonly "balance_usdc_atomic": string
  readonly "balance_usdc": string
}

export type Allowance = {
  readonly "object": "allowance"
  readonly "network": "eip155:8453"
  readonly "asset": string
  readonly "owner": string
  readonly "spender": string
  readonly "allowance": string
  readonly "block": number
  readonly "stored_permit": {
    readonly "value": string
    readonly "nonce": string
    readonly "deadline": string
  } | null
}

export type AllowanceRequest = {
  readonly "permit": {
    readonly "owner": string
    readonly "spender"?: string | undefined
    readonly "value": string | number
    readonly "nonce"?: string | number | undefined
    readonly "deadline": string | number
    readonly "signature"?: string | undefined
    readonly "v"?: 27 | 28 | 0 | 1 | undefined
    readonly "r"?: string | undefined
    readonly "s"?: string | undefined
  }
}

export type AllowanceStatus = {
  readonly "object": "allowance_status"
  readonly "network": "eip155:8453"
  readonly "asset": string
  readonly "owner": string
  readonly "spender": string
  readonly "allowance": string
  readonly "balance_usdc_atomic": string
  readonly "permit_nonce": string
  readonly "block": number
  readonly "pays_without_permit": boolean
  readonly "maximum_without_permit": string
  readonly "stored_permit": {
    readonly "value": string
    readonly "nonce": string
    readonly "deadline": string
  } | null
  readonly "storing": {
    readonly "available": boolean
    readonly "reason": string | null
    readonly "message": string | null
    readonly "minimum_value": string
    readonly "minimum_deadline_seconds": number
  }
  readonly "wallet": {
    readonly "has_code": boolean
    readonly "may_pay": boolean
    readonly "message": string | null
  }
  readonly "approval": {
    readonly "to": string
    readonly "data": string
  } | null
  readonly "typed_data": {
    readonly "domain": Readonly<Record<string, unknown>>
    readonly "types": Readonly<Record<string, readonly ({
      readonly "name": string
      readonly "type": string
    })[]>>
    readonly "primaryType": "Permit"
    readonly "message": Readonly<Record<string, string>>
  }
}

export type Model = {
  readonly "id": string
  readonly "object": "model"
  readonly "type": "model"
  readonly "display_name": string
  readonly "created": number
  readonly "created_at": string
  readonly "owned_by": string
  readonly "category": "text_generation" | "image_generation" | "text_to_speech" | "speech_to_text"
  readonly "input_modalities": readonly ("text" | "image" | "video" | "audio")[]
  readonly "output_modalities": readonly ("text" | "image" | "video" | "audio")[]
  readonly "supported_endpoints": readonly ("/v1/chat/completions" | "/v1/messages" | "/v1/images/generations" | "/v1/audio/speech" | "/v1/audio/transcriptions")[]
  readonly "context_window"?: number | undefined
  readonly "max_input_bytes"?: number | undefined
  readonly "max_output_tokens"?: number | undefined
  readonly "supported_image_sizes"?: readonly (string)[] | undefined
  readonly "supported_aspect_ratios"?: readonly (string)[] | undefined
  readonly "maximum_characters"?: number | undefined
  readonly "response_formats"?: readonly (string)[] | undefined
  readonly "minimum_audio_duration_ms"?: string | undefined
  readonly "maximum_audio_duration_ms"?: string | undefined
  readonly "maximum_audio_bytes"?: number | undefined
  readonly "accepted_formats"?: readonly (string)[] | undefined
  readonly "supported_options"?: {
    readonly "diarize"?: readonly (boolean)[] | undefined
    readonly "tag_audio_events"?: readonly (boolean)[] | undefined
    readonly "timestamps"?: readonly ("none" | "word" | "character")[] | undefined
    readonly "response_format"?: readonly ("json" | "verbose_json")[] | undefined
    readonly [name: string]: unknown
  } | undefined
  readonly [name: string]: unknown
}

export type Quote = {
  readonly "object": "quote"
  readonly "operation": string
  readonly "path": string
  readonly "model": string
  readonly "catalog_version": string
  readonly "request_digest": string
  readonly "audio"?: {
    readonly "sha256": string
    readonly "bytes": number
    readonly "duration_ms": number
    readonly "is_inspected": boolean
  } | undefined
  readonly "price": {
    readonly "amount": string
    readonly "currency": "USDC"
    readonly "type": "maximum"
  }
  readonly "quoted_maximum_atomic": string
  readonly "terms": Readonly<Record<string, unknown>>
  readonly "payment": {
    readonly "x402_version": 2
    readonly "scheme": "upto"
    readonly "network": string
    readonly "asset": string
    readonly "pay_to": string
    readonly "max_timeout_seconds": number
  }
}

export type Receipt = {
  readonly "id": string
  readonly "object": "receipt"
  readonly "operation": string
  readonly "model": string
  readonly "usage": Readonly<Record<string, number>>
  readonly "unit_prices": Readonly<Record<string, string | number>>
  readonly "catalog_version": string
  readonly "price_version": string
  readonly "quoted_maximum_atomic": string
  readonly "authorized_maximum_atomic": string
  readonly "charge_atomic": string
  readonly "charge_usdc": string
  readonly "calculation"?: {
    readonly "lines": readonly ({
      readonly "usage": string
      readonly "measured": number
      readonly "at_most": number | null
      readonly "quantity": string
      readonly "unit": string
      readonly "unit_price_usd": string
      readonly "per_units": string
      readonly "product_usd": string
    })[]
    readonly "sum_usd": string
    readonly "rounding": string
    readonly "rounded_atomic": string
    readonly "minimum_atomic": string
    readonly "gas_minimum_atomic"?: string | undefined
    readonly "maximum_atomic": string
    readonly "applied": "none" | "minimum" | "gas_minimum" | "maximum"
    readonly "charge_atomic": string
  } | undefined
  readonly "currency": "USDC"
  readonly "payer": string
  readonly "pay_to": string
  readonly "network": string
  readonly "asset": string
  readonly "transaction": string
  readonly "block_number": string
  readonly "request_digest": string
  readonly "result_digest": string
  readonly "accepted_at": string
  readonly "settled_at": string
  readonly "issued_at": string
  readonly "settlement": {
    readonly "state": "confirmed" | "final" | "lost"
    readonly "transaction": string
    readonly "block_number": string
  }
  readonly "signature": string
}
