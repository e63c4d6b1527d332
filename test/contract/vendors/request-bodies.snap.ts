// Written by request-bodies.test.ts from what the adapters send (`npx vitest run <file> --update`). The compiler checks
// each body against the types of the vendor's own SDK, which excess properties and unknown values violate.
import type { MessageCreateParams } from '@anthropic-ai/sdk/resources/messages'
import type { ElevenLabs } from '@elevenlabs/elevenlabs-js'
import { FunctionCallingConfigMode, type GenerateContentParameters, ThinkingLevel } from '@google/genai'
import type { SpeechCreateParams } from 'openai/resources/audio/speech'
import type { TranscriptionCreateParams } from 'openai/resources/audio/transcriptions'
import type { ChatCompletionCreateParams } from 'openai/resources/chat/completions'
import type { ImageGenerateParams } from 'openai/resources/images'

export const anthropicMessages = [
  {
    "model": "claude-sonnet-5-5",
    "max_tokens": 64,
    "messages": [
      {
        "role": "user",
        "content": [
          {
            "type": "text",
            "text": "Hello"
          }
        ]
      }
    ],
    "output_config": {
      "effort": "low"
    },
    "stream": true
  },
  {
    "model": "claude-sonnet-5-5",
    "max_tokens": 32768,
    "system": "Be brief.\n\nAnswer with one JSON object and nothing else.",
    "messages": [
      {
        "role": "user",
        "content": [
          {
            "type": "text",
            "text": "Hello"
          }
        ]
      }
    ],
    "stop_sequences": [
      "END",
      "STOP"
    ],
    "stream": true
  },
  {
    "model": "claude-sonnet-5-5",
    "max_tokens": 512,
    "messages": [
      {
        "role": "user",
        "content": [
          {
            "type": "text",
            "text": "Hello"
          }
        ]
      }
    ],
    "output_config": {
      "effort": "low",
      "format": {
        "type": "json_schema",
        "schema": {
          "type": "object",
          "properties": {
            "stops": {
              "type": "integer"
            }
          },
          "required": [
            "stops"
          ],
          "additionalProperties": false
        }
      }
    },
    "stream": true
  },
  {
    "model": "claude-sonnet-5-5",
    "max_tokens": 4096,
    "messages": [
      {
        "role": "user",
        "content": [
          {
            "type": "text",
            "text": "What is this?"
          },
          {
            "type": "image",
            "source": {
              "type": "base64",
              "media_type": "image/png",
              "data": "iVBORw0KGgo="
            }
          }
        ]
      },
      {
        "role": "assistant",
        "content": [
          {
            "type": "text",
            "text": "I look it up."
          },
          {
            "type": "tool_use",
            "id": "call_1",
            "name": "get_weather",
            "input": {
              "stops": 3
            }
          }
        ]
      },
      {
        "role": "user",
        "content": [
          {
            "type": "tool_result",
            "tool_use_id": "call_1",
            "content": "Rain",
            "is_error": true
          }
        ]
      }
    ],
    "tools": [
      {
        "name": "get_weather",
        "description": "Returns the weather",
        "input_schema": {
          "type": "object",
          "properties": {
            "stops": {
              "type": "integer"
            }
          },
          "required": [
            "stops"
          ]
        }
      }
    ],
    "tool_choice": {
      "type": "tool",
      "name": "get_weather"
    },
    "output_config": {
      "effort": "low"
    },
    "stream": true
  },
  {
    "model": "claude-sonnet-5-5",
    "max_tokens": 2048,
    "messages": [
      {
        "role": "user",
        "content": [
          {
            "type": "text",
            "text": "Hello"
          }
        ]
      }
    ],
    "tools": [
      {
        "name": "get_weather",
        "description": "Returns the weather",
        "input_schema": {
          "type": "object",
          "properties": {
            "stops": {
              "type": "integer"
            }
          },
          "required": [
            "stops"
          ]
        }
      }
    ],
    "tool_choice": {
      "type": "auto"
    },
    "output_config": {
      "effort": "low"
    },
    "stream": true
  },
  {
    "model": "claude-sonnet-5-5",
    "max_tokens": 2048,
    "messages": [
      {
        "role": "user",
        "content": [
          {
            "type": "text",
            "text": "Hello"
          }
        ]
      }
    ],
    "tools": [
      {
        "name": "get_weather",
        "description": "Returns the weather",
        "input_schema": {
          "type": "object",
          "properties": {
            "stops": {
              "type": "integer"
            }
          },
          "required": [
            "stops"
          ]
        }
      }
    ],
    "tool_choice": {
      "type": "none"
    },
    "output_config": {
      "effort": "low"
    },
    "stream": true
  },
  {
    "model": "claude-sonnet-5-5",
    "max_tokens": 2048,
    "messages": [
      {
        "role": "user",
        "content": [
          {
            "type": "text",
            "text": "Hello"
          }
        ]
      }
    ],
    "tools": [
      {
        "name": "get_weather",
        "description": "Returns the weather",
        "input_schema": {
          "type": "object",
          "properties": {
            "stops": {
              "type": "integer"
            }
          },
          "required": [
            "stops"
          ]
        }
      }
    ],
    "tool_choice": {
      "type": "any"
    },
    "output_config": {
      "effort": "low"
    },
    "stream": true
  },
  {
    "model": "claude-haiku-4-5",
    "max_tokens": 64,
    "messages": [
      {
        "role": "user",
        "content": [
          {
            "type": "text",
            "text": "Hello"
          }
        ]
      }
    ],
    "output_config": {
      "effort": "low"
    },
    "stream": true
  },
  {
    "model": "claude-haiku-4-5",
    "max_tokens": 32768,
    "system": "Be brief.\n\nAnswer with one JSON object and nothing else.",
    "messages": [
      {
        "role": "user",
        "content": [
          {
            "type": "text",
            "text": "Hello"
          }
        ]
      }
    ],
    "stop_sequences": [
      "END",
      "STOP"
    ],
    "output_config": {
      "effort": "high"
    },
    "thinking": {
      "type": "adaptive"
    },
    "stream": true
  },
  {
    "model": "claude-haiku-4-5",
    "max_tokens": 512,
    "messages": [
      {
        "role": "user",
        "content": [
          {
            "type": "text",
            "text": "Hello"
          }
        ]
      }
    ],
    "output_config": {
      "effort": "low",
      "format": {
        "type": "json_schema",
        "schema": {
          "type": "object",
          "properties": {
            "stops": {
              "type": "integer"
            }
          },
          "required": [
            "stops"
          ],
          "additionalProperties": false
        }
      }
    },
    "stream": true
  },
  {
    "model": "claude-haiku-4-5",
    "max_tokens": 4096,
    "messages": [
      {
        "role": "user",
        "content": [
          {
            "type": "text",
            "text": "What is this?"
          },
          {
            "type": "image",
            "source": {
              "type": "base64",
              "media_type": "image/png",
              "data": "iVBORw0KGgo="
            }
          }
        ]
      },
      {
        "role": "assistant",
        "content": [
          {
            "type": "text",
            "text": "I look it up."
          },
          {
            "type": "tool_use",
            "id": "call_1",
            "name": "get_weather",
            "input": {
              "stops": 3
            }
          }
        ]
      },
      {
        "role": "user",
        "content": [
          {
            "type": "tool_result",
            "tool_use_id": "call_1",
            "content": "Rain",
            "is_error": true
          }
        ]
      }
    ],
    "tools": [
      {
        "name": "get_weather",
        "description": "Returns the weather",
        "input_schema": {
          "type": "object",
          "properties": {
            "stops": {
              "type": "integer"
            }
          },
          "required": [
            "stops"
          ]
        }
      }
    ],
    "tool_choice": {
      "type": "tool",
      "name": "get_weather"
    },
    "output_config": {
      "effort": "low"
    },
    "thinking": {
      "type": "adaptive"
    },
    "stream": true
  },
  {
    "model": "claude-haiku-4-5",
    "max_tokens": 2048,
    "messages": [
      {
        "role": "user",
        "content": [
          {
            "type": "text",
            "text": "Hello"
          }
        ]
      }
    ],
    "tools": [
      {
        "name": "get_weather",
        "description": "Returns the weather",
        "input_schema": {
          "type": "object",
          "properties": {
            "stops": {
              "type": "integer"
            }
          },
          "required": [
            "stops"
          ]
        }
      }
    ],
    "tool_choice": {
      "type": "auto"
    },
    "output_config": {
      "effort": "low"
    },
    "stream": true
  },
  {
    "model": "claude-haiku-4-5",
    "max_tokens": 2048,
    "messages": [
      {
        "role": "user",
        "content": [
          {
            "type": "text",
            "text": "Hello"
          }
        ]
      }
    ],
    "tools": [
      {
        "name": "get_weather",
        "description": "Returns the weather",
        "input_schema": {
          "type": "object",
          "properties": {
            "stops": {
              "type": "integer"
            }
          },
          "required": [
            "stops"
          ]
        }
      }
    ],
    "tool_choice": {
      "type": "none"
    },
    "output_config": {
      "effort": "low"
    },
    "stream": true
  },
  {
    "model": "claude-haiku-4-5",
    "max_tokens": 2048,
    "messages": [
      {
        "role": "user",
        "content": [
          {
            "type": "text",
            "text": "Hello"
          }
        ]
      }
    ],
    "tools": [
      {
        "name": "get_weather",
        "description": "Returns the weather",
        "input_schema": {
          "type": "object",
          "properties": {
            "stops": {
              "type": "integer"
            }
          },
          "required": [
            "stops"
          ]
        }
      }
    ],
    "tool_choice": {
      "type": "any"
    },
    "output_config": {
      "effort": "low"
    },
    "stream": true
  }
] satisfies MessageCreateParams[]
export const geminiContents = [
  {
    "model": "gemini-3.6-flash",
    "contents": [
      {
        "role": "user",
        "parts": [
          {
            "text": "Hello"
          }
        ]
      }
    ],
    "config": {
      "maxOutputTokens": 64,
      "thinkingConfig": {
        "thinkingLevel": ThinkingLevel.LOW
      }
    }
  },
  {
    "model": "gemini-3.6-flash",
    "contents": [
      {
        "role": "user",
        "parts": [
          {
            "text": "Hello"
          }
        ]
      }
    ],
    "config": {
      "maxOutputTokens": 32768,
      "stopSequences": [
        "END",
        "STOP"
      ],
      "seed": 7,
      "responseMimeType": "application/json",
      "thinkingConfig": {
        "thinkingLevel": ThinkingLevel.HIGH
      },
      "systemInstruction": {
        "parts": [
          {
            "text": "Be brief."
          }
        ]
      }
    }
  },
  {
    "model": "gemini-3.6-flash",
    "contents": [
      {
        "role": "user",
        "parts": [
          {
            "text": "Hello"
          }
        ]
      }
    ],
    "config": {
      "maxOutputTokens": 512,
      "responseMimeType": "application/json",
      "responseJsonSchema": {
        "type": "object",
        "properties": {
          "stops": {
            "type": "integer"
          }
        },
        "required": [
          "stops"
        ]
      },
      "thinkingConfig": {
        "thinkingLevel": ThinkingLevel.LOW
      }
    }
  },
  {
    "model": "gemini-3.6-flash",
    "contents": [
      {
        "role": "user",
        "parts": [
          {
            "text": "What is this?"
          },
          {
            "inlineData": {
              "mimeType": "image/png",
              "data": "iVBORw0KGgo="
            }
          }
        ]
      },
      {
        "role": "model",
        "parts": [
          {
            "text": "I look it up."
          },
          {
            "functionCall": {
              "id": "call_1",
              "name": "get_weather",
              "args": {
                "stops": 3
              }
            },
            "thoughtSignature": "skip_thought_signature_validator"
          }
        ]
      },
      {
        "role": "user",
        "parts": [
          {
            "functionResponse": {
              "id": "call_1",
              "name": "get_weather",
              "response": {
                "error": "Rain"
              }
            }
          }
        ]
      }
    ],
    "config": {
      "maxOutputTokens": 4096,
      "thinkingConfig": {
        "thinkingLevel": ThinkingLevel.LOW
      },
      "tools": [
        {
          "functionDeclarations": [
            {
              "name": "get_weather",
              "description": "Returns the weather",
              "parametersJsonSchema": {
                "type": "object",
                "properties": {
                  "stops": {
                    "type": "integer"
                  }
                },
                "required": [
                  "stops"
                ]
              }
            }
          ]
        }
      ],
      "toolConfig": {
        "functionCallingConfig": {
          "mode": FunctionCallingConfigMode.ANY,
          "allowedFunctionNames": [
            "get_weather"
          ]
        }
      }
    }
  },
  {
    "model": "gemini-3.6-flash",
    "contents": [
      {
        "role": "user",
        "parts": [
          {
            "text": "Hello"
          }
        ]
      }
    ],
    "config": {
      "maxOutputTokens": 2048,
      "thinkingConfig": {
        "thinkingLevel": ThinkingLevel.LOW
      },
      "tools": [
        {
          "functionDeclarations": [
            {
              "name": "get_weather",
              "description": "Returns the weather",
              "parametersJsonSchema": {
                "type": "object",
                "properties": {
                  "stops": {
                    "type": "integer"
                  }
                },
                "required": [
                  "stops"
                ]
              }
            }
          ]
        }
      ],
      "toolConfig": {
        "functionCallingConfig": {
          "mode": FunctionCallingConfigMode.AUTO
        }
      }
    }
  },
  {
    "model": "gemini-3.6-flash",
    "contents": [
      {
        "role": "user",
        "parts": [
          {
            "text": "Hello"
          }
        ]
      }
    ],
    "config": {
      "maxOutputTokens": 2048,
      "thinkingConfig": {
        "thinkingLevel": ThinkingLevel.LOW
      },
      "tools": [
        {
          "functionDeclarations": [
            {
              "name": "get_weather",
              "description": "Returns the weather",
              "parametersJsonSchema": {
                "type": "object",
                "properties": {
                  "stops": {
                    "type": "integer"
                  }
                },
                "required": [
                  "stops"
                ]
              }
            }
          ]
        }
      ],
      "toolConfig": {
        "functionCallingConfig": {
          "mode": FunctionCallingConfigMode.NONE
        }
      }
    }
  },
  {
    "model": "gemini-3.6-flash",
    "contents": [
      {
        "role": "user",
        "parts": [
          {
            "text": "Hello"
          }
        ]
      }
    ],
    "config": {
      "maxOutputTokens": 2048,
      "thinkingConfig": {
        "thinkingLevel": ThinkingLevel.LOW
      },
      "tools": [
        {
          "functionDeclarations": [
            {
              "name": "get_weather",
              "description": "Returns the weather",
              "parametersJsonSchema": {
                "type": "object",
                "properties": {
                  "stops": {
                    "type": "integer"
                  }
                },
                "required": [
                  "stops"
                ]
              }
            }
          ]
        }
      ],
      "toolConfig": {
        "functionCallingConfig": {
          "mode": FunctionCallingConfigMode.ANY
        }
      }
    }
  },
  {
    "model": "gemini-2.5-flash-lite",
    "contents": [
      {
        "role": "user",
        "parts": [
          {
            "text": "Hello"
          }
        ]
      }
    ],
    "config": {
      "maxOutputTokens": 64,
      "thinkingConfig": {
        "thinkingBudget": 0
      }
    }
  },
  {
    "model": "gemini-2.5-flash-lite",
    "contents": [
      {
        "role": "user",
        "parts": [
          {
            "text": "Hello"
          }
        ]
      }
    ],
    "config": {
      "maxOutputTokens": 32768,
      "temperature": 0.5,
      "topP": 0.9,
      "topK": 40,
      "stopSequences": [
        "END",
        "STOP"
      ],
      "seed": 7,
      "responseMimeType": "application/json",
      "thinkingConfig": {
        "thinkingBudget": 1024
      },
      "systemInstruction": {
        "parts": [
          {
            "text": "Be brief."
          }
        ]
      }
    }
  },
  {
    "model": "gemini-2.5-flash-lite",
    "contents": [
      {
        "role": "user",
        "parts": [
          {
            "text": "Hello"
          }
        ]
      }
    ],
    "config": {
      "maxOutputTokens": 512,
      "responseMimeType": "application/json",
      "responseJsonSchema": {
        "type": "object",
        "properties": {
          "stops": {
            "type": "integer"
          }
        },
        "required": [
          "stops"
        ]
      },
      "thinkingConfig": {
        "thinkingBudget": 0
      }
    }
  },
  {
    "model": "gemini-2.5-flash-lite",
    "contents": [
      {
        "role": "user",
        "parts": [
          {
            "text": "What is this?"
          },
          {
            "inlineData": {
              "mimeType": "image/png",
              "data": "iVBORw0KGgo="
            }
          }
        ]
      },
      {
        "role": "model",
        "parts": [
          {
            "text": "I look it up."
          },
          {
            "functionCall": {
              "id": "call_1",
              "name": "get_weather",
              "args": {
                "stops": 3
              }
            }
          }
        ]
      },
      {
        "role": "user",
        "parts": [
          {
            "functionResponse": {
              "id": "call_1",
              "name": "get_weather",
              "response": {
                "error": "Rain"
              }
            }
          }
        ]
      }
    ],
    "config": {
      "maxOutputTokens": 4096,
      "thinkingConfig": {
        "thinkingBudget": 1024
      },
      "tools": [
        {
          "functionDeclarations": [
            {
              "name": "get_weather",
              "description": "Returns the weather",
              "parametersJsonSchema": {
                "type": "object",
                "properties": {
                  "stops": {
                    "type": "integer"
                  }
                },
                "required": [
                  "stops"
                ]
              }
            }
          ]
        }
      ],
      "toolConfig": {
        "functionCallingConfig": {
          "mode": FunctionCallingConfigMode.ANY,
          "allowedFunctionNames": [
            "get_weather"
          ]
        }
      }
    }
  },
  {
    "model": "gemini-2.5-flash-lite",
    "contents": [
      {
        "role": "user",
        "parts": [
          {
            "text": "Hello"
          }
        ]
      }
    ],
    "config": {
      "maxOutputTokens": 2048,
      "thinkingConfig": {
        "thinkingBudget": 512
      },
      "tools": [
        {
          "functionDeclarations": [
            {
              "name": "get_weather",
              "description": "Returns the weather",
              "parametersJsonSchema": {
                "type": "object",
                "properties": {
                  "stops": {
                    "type": "integer"
                  }
                },
                "required": [
                  "stops"
                ]
              }
            }
          ]
        }
      ],
      "toolConfig": {
        "functionCallingConfig": {
          "mode": FunctionCallingConfigMode.AUTO
        }
      }
    }
  },
  {
    "model": "gemini-2.5-flash-lite",
    "contents": [
      {
        "role": "user",
        "parts": [
          {
            "text": "Hello"
          }
        ]
      }
    ],
    "config": {
      "maxOutputTokens": 2048,
      "thinkingConfig": {
        "thinkingBudget": 512
      },
      "tools": [
        {
          "functionDeclarations": [
            {
              "name": "get_weather",
              "description": "Returns the weather",
              "parametersJsonSchema": {
                "type": "object",
                "properties": {
                  "stops": {
                    "type": "integer"
                  }
                },
                "required": [
                  "stops"
                ]
              }
            }
          ]
        }
      ],
      "toolConfig": {
        "functionCallingConfig": {
          "mode": FunctionCallingConfigMode.NONE
        }
      }
    }
  },
  {
    "model": "gemini-2.5-flash-lite",
    "contents": [
      {
        "role": "user",
        "parts": [
          {
            "text": "Hello"
          }
        ]
      }
    ],
    "config": {
      "maxOutputTokens": 2048,
      "thinkingConfig": {
        "thinkingBudget": 512
      },
      "tools": [
        {
          "functionDeclarations": [
            {
              "name": "get_weather",
              "description": "Returns the weather",
              "parametersJsonSchema": {
                "type": "object",
                "properties": {
                  "stops": {
                    "type": "integer"
                  }
                },
                "required": [
                  "stops"
                ]
              }
            }
          ]
        }
      ],
      "toolConfig": {
        "functionCallingConfig": {
          "mode": FunctionCallingConfigMode.ANY
        }
      }
    }
  },
  {
    "model": "gemini-3.1-flash-lite-image",
    "contents": [
      {
        "role": "user",
        "parts": [
          {
            "text": "A tram"
          }
        ]
      }
    ],
    "config": {
      "responseModalities": [
        "IMAGE"
      ],
      "imageConfig": {
        "aspectRatio": "1:1",
        "imageSize": "1K"
      }
    }
  }
] satisfies GenerateContentParameters[]
export const openAiCompletions = [
  {
    "model": "gpt-6-luna",
    "messages": [
      {
        "role": "user",
        "content": "Hello"
      }
    ],
    "max_completion_tokens": 64,
    "reasoning_effort": "none",
    "stream": true,
    "stream_options": {
      "include_usage": true
    }
  },
  {
    "model": "gpt-6-luna",
    "messages": [
      {
        "role": "developer",
        "content": "Be brief."
      },
      {
        "role": "user",
        "content": "Hello"
      }
    ],
    "max_completion_tokens": 32768,
    "response_format": {
      "type": "json_object"
    },
    "reasoning_effort": "none",
    "stop": [
      "END",
      "STOP"
    ],
    "seed": 7,
    "temperature": 0.5,
    "top_p": 0.9,
    "presence_penalty": 0.5,
    "frequency_penalty": 0.5,
    "stream": true,
    "stream_options": {
      "include_usage": true
    }
  },
  {
    "model": "gpt-6-luna",
    "messages": [
      {
        "role": "user",
        "content": "Hello"
      }
    ],
    "max_completion_tokens": 512,
    "response_format": {
      "type": "json_schema",
      "json_schema": {
        "name": "answer",
        "schema": {
          "type": "object",
          "properties": {
            "stops": {
              "type": "integer"
            }
          },
          "required": [
            "stops"
          ]
        }
      }
    },
    "reasoning_effort": "none",
    "stream": true,
    "stream_options": {
      "include_usage": true
    }
  },
  {
    "model": "gpt-6-luna",
    "messages": [
      {
        "role": "user",
        "content": [
          {
            "type": "text",
            "text": "What is this?"
          },
          {
            "type": "image_url",
            "image_url": {
              "url": "data:image/png;base64,iVBORw0KGgo="
            }
          }
        ]
      },
      {
        "role": "assistant",
        "content": "I look it up.",
        "tool_calls": [
          {
            "id": "call_1",
            "type": "function",
            "function": {
              "name": "get_weather",
              "arguments": "{\"stops\":3}"
            }
          }
        ]
      },
      {
        "role": "tool",
        "tool_call_id": "call_1",
        "content": "Rain"
      }
    ],
    "max_completion_tokens": 4096,
    "tools": [
      {
        "type": "function",
        "function": {
          "name": "get_weather",
          "description": "Returns the weather",
          "parameters": {
            "type": "object",
            "properties": {
              "stops": {
                "type": "integer"
              }
            },
            "required": [
              "stops"
            ]
          }
        }
      }
    ],
    "tool_choice": {
      "type": "function",
      "function": {
        "name": "get_weather"
      }
    },
    "reasoning_effort": "none",
    "stream": true,
    "stream_options": {
      "include_usage": true
    }
  },
  {
    "model": "gpt-6-luna",
    "messages": [
      {
        "role": "user",
        "content": "Hello"
      }
    ],
    "max_completion_tokens": 2048,
    "tools": [
      {
        "type": "function",
        "function": {
          "name": "get_weather",
          "description": "Returns the weather",
          "parameters": {
            "type": "object",
            "properties": {
              "stops": {
                "type": "integer"
              }
            },
            "required": [
              "stops"
            ]
          }
        }
      }
    ],
    "tool_choice": "auto",
    "reasoning_effort": "none",
    "stream": true,
    "stream_options": {
      "include_usage": true
    }
  },
  {
    "model": "gpt-6-luna",
    "messages": [
      {
        "role": "user",
        "content": "Hello"
      }
    ],
    "max_completion_tokens": 2048,
    "tools": [
      {
        "type": "function",
        "function": {
          "name": "get_weather",
          "description": "Returns the weather",
          "parameters": {
            "type": "object",
            "properties": {
              "stops": {
                "type": "integer"
              }
            },
            "required": [
              "stops"
            ]
          }
        }
      }
    ],
    "tool_choice": "none",
    "reasoning_effort": "none",
    "stream": true,
    "stream_options": {
      "include_usage": true
    }
  },
  {
    "model": "gpt-6-luna",
    "messages": [
      {
        "role": "user",
        "content": "Hello"
      }
    ],
    "max_completion_tokens": 2048,
    "tools": [
      {
        "type": "function",
        "function": {
          "name": "get_weather",
          "description": "Returns the weather",
          "parameters": {
            "type": "object",
            "properties": {
              "stops": {
                "type": "integer"
              }
            },
            "required": [
              "stops"
            ]
          }
        }
      }
    ],
    "tool_choice": "required",
    "reasoning_effort": "none",
    "stream": true,
    "stream_options": {
      "include_usage": true
    }
  },
  {
    "model": "gpt-6-luna",
    "messages": [
      {
        "role": "user",
        "content": "Hello"
      }
    ],
    "max_completion_tokens": 64,
    "max_tokens": 64,
    "reasoning_effort": "low",
    "stream": true,
    "stream_options": {
      "include_usage": true
    }
  },
  {
    "model": "gpt-6-luna",
    "messages": [
      {
        "role": "system",
        "content": "Be brief."
      },
      {
        "role": "user",
        "content": "Hello"
      }
    ],
    "max_completion_tokens": 32768,
    "max_tokens": 32768,
    "response_format": {
      "type": "json_object"
    },
    "reasoning_effort": "high",
    "stop": [
      "END",
      "STOP"
    ],
    "seed": 7,
    "stream": true,
    "stream_options": {
      "include_usage": true
    }
  },
  {
    "model": "gpt-6-luna",
    "messages": [
      {
        "role": "user",
        "content": "Hello"
      }
    ],
    "max_completion_tokens": 512,
    "max_tokens": 512,
    "response_format": {
      "type": "json_schema",
      "json_schema": {
        "name": "answer",
        "schema": {
          "type": "object",
          "properties": {
            "stops": {
              "type": "integer"
            }
          },
          "required": [
            "stops"
          ]
        }
      }
    },
    "reasoning_effort": "low",
    "stream": true,
    "stream_options": {
      "include_usage": true
    }
  },
  {
    "model": "gpt-6-luna",
    "messages": [
      {
        "role": "user",
        "content": [
          {
            "type": "text",
            "text": "What is this?"
          },
          {
            "type": "image_url",
            "image_url": {
              "url": "data:image/png;base64,iVBORw0KGgo="
            }
          }
        ]
      },
      {
        "role": "assistant",
        "content": "I look it up.",
        "tool_calls": [
          {
            "id": "call_1",
            "type": "function",
            "function": {
              "name": "get_weather",
              "arguments": "{\"stops\":3}"
            }
          }
        ]
      },
      {
        "role": "tool",
        "tool_call_id": "call_1",
        "content": "Rain"
      }
    ],
    "max_completion_tokens": 4096,
    "max_tokens": 4096,
    "tools": [
      {
        "type": "function",
        "function": {
          "name": "get_weather",
          "description": "Returns the weather",
          "parameters": {
            "type": "object",
            "properties": {
              "stops": {
                "type": "integer"
              }
            },
            "required": [
              "stops"
            ]
          }
        }
      }
    ],
    "tool_choice": {
      "type": "function",
      "function": {
        "name": "get_weather"
      }
    },
    "reasoning_effort": "low",
    "stream": true,
    "stream_options": {
      "include_usage": true
    }
  },
  {
    "model": "gpt-6-luna",
    "messages": [
      {
        "role": "user",
        "content": "Hello"
      }
    ],
    "max_completion_tokens": 2048,
    "max_tokens": 2048,
    "tools": [
      {
        "type": "function",
        "function": {
          "name": "get_weather",
          "description": "Returns the weather",
          "parameters": {
            "type": "object",
            "properties": {
              "stops": {
                "type": "integer"
              }
            },
            "required": [
              "stops"
            ]
          }
        }
      }
    ],
    "tool_choice": "auto",
    "reasoning_effort": "low",
    "stream": true,
    "stream_options": {
      "include_usage": true
    }
  },
  {
    "model": "gpt-6-luna",
    "messages": [
      {
        "role": "user",
        "content": "Hello"
      }
    ],
    "max_completion_tokens": 2048,
    "max_tokens": 2048,
    "tools": [
      {
        "type": "function",
        "function": {
          "name": "get_weather",
          "description": "Returns the weather",
          "parameters": {
            "type": "object",
            "properties": {
              "stops": {
                "type": "integer"
              }
            },
            "required": [
              "stops"
            ]
          }
        }
      }
    ],
    "tool_choice": "none",
    "reasoning_effort": "low",
    "stream": true,
    "stream_options": {
      "include_usage": true
    }
  },
  {
    "model": "gpt-6-luna",
    "messages": [
      {
        "role": "user",
        "content": "Hello"
      }
    ],
    "max_completion_tokens": 2048,
    "max_tokens": 2048,
    "tools": [
      {
        "type": "function",
        "function": {
          "name": "get_weather",
          "description": "Returns the weather",
          "parameters": {
            "type": "object",
            "properties": {
              "stops": {
                "type": "integer"
              }
            },
            "required": [
              "stops"
            ]
          }
        }
      }
    ],
    "tool_choice": "required",
    "reasoning_effort": "low",
    "stream": true,
    "stream_options": {
      "include_usage": true
    }
  }
] satisfies ChatCompletionCreateParams[]
export const openAiImages = [
  {
    "model": "gpt-image-2.6-flare",
    "prompt": "A tram",
    "n": 1,
    "size": "1024x1024",
    "quality": "medium"
  }
] satisfies ImageGenerateParams[]
export const openAiSpeech = [
  {
    "model": "gpt-4o-mini-tts",
    "input": "Mind the step.",
    "voice": "a-voice",
    "response_format": "mp3",
    "speed": 1.1
  }
] satisfies SpeechCreateParams[]
export const openAiTranscriptions = [
  {
    "model": "whisper-1",
    "response_format": "verbose_json"
  },
  {
    "model": "whisper-1",
    "response_format": "verbose_json",
    "timestamp_granularities": [
      "word"
    ],
    "language": "en"
  }
] satisfies Omit<TranscriptionCreateParams, 'file'>[]
export const elevenLabsSpeech = [
  {
    "text": "Mind the step.",
    "modelId": "eleven_flash_v2_5",
    "voiceSettings": {
      "speed": 1.1
    }
  }
] satisfies ElevenLabs.BodyTextToSpeechFull[]
export const elevenLabsTranscriptions = [
  {
    "modelId": "scribe_v2",
    "timestampsGranularity": "none",
    "diarize": false,
    "tagAudioEvents": false
  },
  {
    "modelId": "scribe_v2",
    "timestampsGranularity": "word",
    "diarize": false,
    "tagAudioEvents": false,
    "languageCode": "en"
  },
  {
    "modelId": "scribe_v2",
    "timestampsGranularity": "character",
    "diarize": true,
    "tagAudioEvents": true,
    "numSpeakers": 2,
    "languageCode": "eng"
  }
] satisfies ElevenLabs.BodySpeechToTextV1SpeechToTextPost[]
