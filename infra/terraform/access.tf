# The API stages uploads, deletes those of rejected payments, and serves media. It cannot read an upload.
data "aws_iam_policy_document" "api" {
  # API and worker try each of their operations at start. Without this right, a missing object is a 403 instead of a 404.
  statement {
    sid       = "FindTheBucket"
    actions   = ["s3:ListBucket"]
    resources = [aws_s3_bucket.media.arn]
  }

  statement {
    sid       = "StageUploads"
    actions   = ["s3:PutObject", "s3:DeleteObject"]
    resources = ["${aws_s3_bucket.media.arn}/staged/*"]
  }

  statement {
    sid       = "ServeMedia"
    actions   = ["s3:GetObject"]
    resources = ["${aws_s3_bucket.media.arn}/media/*"]
  }

  statement {
    sid       = "ReadArchivedReceipts"
    actions   = ["s3:GetObject"]
    resources = ["${aws_s3_bucket.media.arn}/archive/*"]
  }

  dynamic "statement" {
    for_each = var.kms_key_arn[*]

    content {
      sid       = "UseTheKey"
      actions   = ["kms:Decrypt", "kms:GenerateDataKey"]
      resources = [statement.value]
    }
  }
}

# Workers and settlers read uploads, write media, and delete both when they have expired.
data "aws_iam_policy_document" "worker" {
  statement {
    sid       = "LookForWhatExpired"
    actions   = ["s3:ListBucket"]
    resources = [aws_s3_bucket.media.arn]
  }

  statement {
    sid       = "ReadUploads"
    actions   = ["s3:GetObject", "s3:DeleteObject"]
    resources = ["${aws_s3_bucket.media.arn}/staged/*"]
  }

  statement {
    sid       = "KeepMedia"
    actions   = ["s3:PutObject", "s3:DeleteObject"]
    resources = ["${aws_s3_bucket.media.arn}/media/*"]
  }

  dynamic "statement" {
    for_each = var.kms_key_arn[*]

    content {
      sid       = "UseTheKey"
      actions   = ["kms:Decrypt", "kms:GenerateDataKey"]
      resources = [statement.value]
    }
  }
}

# `npm run archive` adds to the archive. Nothing of farebox deletes from it.
data "aws_iam_policy_document" "archive" {
  statement {
    sid       = "FindTheBucket"
    actions   = ["s3:ListBucket", "s3:GetLifecycleConfiguration"]
    resources = [aws_s3_bucket.media.arn]
  }

  statement {
    sid       = "AddToTheArchive"
    actions   = ["s3:PutObject", "s3:GetObject"]
    resources = ["${aws_s3_bucket.media.arn}/archive/*"]
  }

  dynamic "statement" {
    for_each = var.kms_key_arn[*]

    content {
      sid       = "UseTheKey"
      actions   = ["kms:Decrypt", "kms:GenerateDataKey"]
      resources = [statement.value]
    }
  }
}

resource "aws_iam_policy" "api" {
  name        = "${var.name}-api-media"
  description = "What a farebox API may do in its bucket"
  policy      = data.aws_iam_policy_document.api.json
  tags        = var.tags
}

resource "aws_iam_policy" "worker" {
  name        = "${var.name}-worker-media"
  description = "What a farebox worker may do in its bucket"
  policy      = data.aws_iam_policy_document.worker.json
  tags        = var.tags
}

resource "aws_iam_policy" "archive" {
  name        = "${var.name}-archive"
  description = "What npm run archive may do in the bucket"
  policy      = data.aws_iam_policy_document.archive.json
  tags        = var.tags
}
