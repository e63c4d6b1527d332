# The bucket for encrypted uploads and result media, and the rights of API and workers in it. An alternative to
# `npm run bucket:init`; test/system/deployment/kubernetes.test.ts checks that both write the same rules.

terraform {
  required_version = ">= 1.5"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.86, < 7.0"
    }
  }
}

resource "aws_s3_bucket" "media" {
  bucket = var.bucket_name
  tags   = var.tags
}

resource "aws_s3_bucket_public_access_block" "media" {
  bucket = aws_s3_bucket.media.id

  block_public_acls       = true
  ignore_public_acls      = true
  block_public_policy     = true
  restrict_public_buckets = true
}

resource "aws_s3_bucket_ownership_controls" "media" {
  bucket = aws_s3_bucket.media.id

  rule {
    object_ownership = "BucketOwnerEnforced"
  }
}

resource "aws_s3_bucket_server_side_encryption_configuration" "media" {
  bucket = aws_s3_bucket.media.id

  rule {
    bucket_key_enabled = var.kms_key_arn != null

    apply_server_side_encryption_by_default {
      sse_algorithm     = var.kms_key_arn == null ? "AES256" : "aws:kms"
      kms_master_key_id = var.kms_key_arn
    }
  }
}

# A backstop: the workers delete expired objects themselves, on time. Objects have the prefix of their retention class.
resource "aws_s3_bucket_lifecycle_configuration" "media" {
  bucket = aws_s3_bucket.media.id

  rule {
    id     = "farebox-staged"
    status = "Enabled"

    filter {
      prefix = "staged/"
    }

    expiration {
      days = 1
    }
  }

  rule {
    id     = "farebox-speech"
    status = "Enabled"

    filter {
      prefix = "media/speech/"
    }

    expiration {
      days = 2
    }
  }

  rule {
    id     = "farebox-images"
    status = "Enabled"

    filter {
      prefix = "media/images/"
    }

    expiration {
      days = 8
    }
  }
}

resource "aws_s3_bucket_policy" "media" {
  bucket = aws_s3_bucket.media.id
  policy = data.aws_iam_policy_document.only_tls.json

  depends_on = [aws_s3_bucket_public_access_block.media]
}

data "aws_iam_policy_document" "only_tls" {
  statement {
    sid       = "OnlyWithTls"
    effect    = "Deny"
    actions   = ["s3:*"]
    resources = [aws_s3_bucket.media.arn, "${aws_s3_bucket.media.arn}/*"]

    principals {
      type        = "*"
      identifiers = ["*"]
    }

    condition {
      test     = "Bool"
      variable = "aws:SecureTransport"
      values   = ["false"]
    }
  }
}
