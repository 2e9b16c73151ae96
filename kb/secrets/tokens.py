"""Secrets with a form published by their issuer: prefix and length."""

import re

# lower-case needles, one of which the line must hold → pattern
_FORM_TEXTS: dict[tuple[str, ...], str] = {
    ("xox", "xapp-"): r"\bxox[a-z]{1,2}(?:\.xox[a-z])?-[A-Za-z0-9-]{8,}|\bxapp-\d-[A-Za-z0-9-]{10,}",
    ("webhook.office.com",): r"(?<=webhook\.office\.com/)webhookb2/[A-Za-z0-9/@-]{10,}",
    ("/webhooks/",): r"(?<=/webhooks/)\d{15,22}/[\w-]{40,}",
    ("akia", "asia", "abia", "acca", "a3t", "absk"): r"\b(?:AKIA|ASIA|ABIA|ACCA|A3T[A-Z0-9])[A-Z0-9]{16}\b|\bABSK[A-Za-z0-9+/=]{80,}",
    ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"): r"\bgh[pousr]_[A-Za-z0-9]{20,}|\bgithub_pat_[A-Za-z0-9_]{20,}",
    ("glpat-", "gldt-", "glrt-", "glft-", "glptt-", "glcbt-", "glffct-", "glimt-", "glagent-", "gloas-", "glsoat-", "gr1348941"): (
        r"\bgl(?:pat|dt|rt|ft|ptt|cbt|ffct|imt|agent|oas|soat)-[A-Za-z0-9_.-]{16,}|\bGR1348941[\w-]{16,}"
    ),
    ("_gitlab_session",): r"(?<=_gitlab_session=)[0-9a-z]{20,}",
    ("hf_", "api_org_"): r"\b(?:hf|api_org)_[A-Za-z0-9]{20,}",
    (
        "sk-",
        "sk_live",
        "sk_test",
        "rk_live",
        "rk_test",
    ): r"\bsk-(?=[A-Za-z_-]{0,80}\d)[A-Za-z0-9_-]{20,}|\b[sr]k_(?:live|test|prod)_[A-Za-z0-9]{10,}",
    ("nvapi-", "pplx-", "gsk_"): r"\b(?:nvapi-|pplx-|gsk_)[A-Za-z0-9_-]{20,}",
    ("aiza", "ya29."): r"\bAIza[A-Za-z0-9_-]{35}|\bya29\.[A-Za-z0-9_-]{20,}",
    ("npm_", "pypi-", "rubygems_", "clojars_"): (
        r"\bnpm_[A-Za-z0-9]{30,}|\bpypi-[A-Za-z0-9_-]{40,}|\brubygems_[0-9a-f]{40,}|\bCLOJARS_[A-Za-z0-9]{40,}"
    ),
    ("dckr_",): r"\bdckr_(?:pat|oat)_[A-Za-z0-9_-]{20,}",
    ("hvs.", "hvb.", "atlasv1"): r"\bhv[sb]\.[A-Za-z0-9_-]{20,}|\b[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{40,}",
    ("glsa_", "glc_", "gla_", "gsa_", "gsc_"): r"\bgls?[ac]_[A-Za-z0-9_+/]{20,}={0,3}",
    (
        "eyj",
    ): r"(?<![A-Za-z0-9])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)*|(?<![A-Za-z0-9])eyJrIjoi[A-Za-z0-9+/]{60,}={0,3}"
    r"|\bops_eyJ[A-Za-z0-9+/]{60,}={0,3}",
    ("dapi",): r"\bdapi[a-f0-9]{32}(?:-\d)?\b",
    ("_v1_", "dp.pt.", "dt0c01.", "v1.0-"): (
        r"\bdo[opr]_v1_[a-f0-9]{40,}|\bwandb_v\d_[A-Za-z0-9_-]{20,}|\bdp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9._-]{30,}|\bdt0c01\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{40,}"
        r"|\bv1\.0-[a-f0-9]{24}-[a-f0-9]{100,}"
    ),
    ("sg.",): r"\bSG\.[A-Za-z0-9_-]{16,40}\.[A-Za-z0-9_-]{20,}",
    (":aa",): r"\b(?:bot)?\d{8,12}:AA[A-Za-z0-9_-]{30,}",
    ("age-secret-key-",): r"\bAGE-SECRET-KEY-1[A-Z0-9]{40,}",
    ("tskey-",): r"\btskey-[a-z]{2,12}-[A-Za-z0-9-]{16,}",
    ("ltai", "akcp", "cmvmd", "4b1d", "ezak", "eztk"): (
        r"\bLTAI[A-Za-z0-9]{20}\b|\bAKCp[A-Za-z0-9]{60,}|\bcmVmd[A-Za-z0-9]{50,}|\b4b1d[A-Za-z0-9]{38}\b|\bEZ[AT]K[A-Za-z0-9]{50,}"
    ),
    ("q~",): r"(?<![A-Za-z0-9])[A-Za-z0-9_~.]{3}\dQ~[A-Za-z0-9_~.-]{31,34}",
    ("sha256~", "pscale_", "pmak-", "pnu_", "pul-"): (
        r"\bsha256~[\w-]{40,}|\bpscale_(?:tkn|oauth|pw)_[\w=.-]{30,}|\bPMAK-[a-f0-9]{24}-[a-f0-9]{30,}|\bpnu_[A-Za-z0-9]{36}|\bpul-[a-f0-9]{40}"
    ),
    ("xkeysib-", "sntrys_", "sntryu_", "sm_aat", "sm_pat", "sm_sat", "shippo_", "shpat_", "shpca_", "shppa_", "shpss_", "sgp_"): (
        r"\bxkeysib-[a-f0-9]{60,}-\w{16}|\bsntry[su]_[A-Za-z0-9+/=_]{40,}|\bsm_[aps]at_[A-Za-z0-9]{16,}|\bshippo_(?:live|test)_[a-f0-9]{40}"
        r"|\bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}|\bsgp_(?:(?:[a-f0-9]{16}|local)_)?[a-f0-9]{40}"
    ),
    ("eaaa", "eaam", "eaac", "sq0"): r"\bEAA(?:A|[MC])[\w-]{22,}|\bsq0[a-z]{3}-[\w-]{20,}",
    ("lin_api_", "ntn_", "_mmk", "rdme_", "tk-us-", "ico-", "fio-u-", "p8e-", "hrku-", "duffel_", "flwseck"): (
        r"\blin_api_[A-Za-z0-9]{36,}|\bntn_\d{11}[A-Za-z0-9]{30,}|\b[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk|\brdme_[A-Za-z0-9]{60,}|\btk-us-[\w-]{40,}"
        r"|\bico-[A-Za-z0-9]{32}\b|\bfio-u-[\w=-]{60,}|\bp8e-[A-Za-z0-9]{32}|\bHRKU-[\w-]{50,}|\bduffel_(?:test|live)_[\w=-]{40,}"
        r"|\bFLWSECK_TEST-[A-Za-z0-9]{12,}"
    ),
    ("fo1_", "fm1", "fm2_"): r"\bfo1_[\w-]{40,}|\bfm(?:1[ar]|2)_[A-Za-z0-9+/]{80,}={0,3}",
    ("a3-", "api-"): r"\bA3-[A-Z0-9]{6}-(?:[A-Z0-9]{5,11}-){2,4}[A-Z0-9]{5}\b|\bAPI-[A-Z0-9]{26}\b",
    ("$",): r"\$(?:[1567y]|gy|2[abxy]|argon2id?|apr1|sha1|scrypt)\$[^\s:\"'<>]{20,}",
    ("-us",): r"\b[0-9a-f]{32}-us\d{1,2}\b",
    ("r8_", "xai-", "rpa_", "lsv2_", "tgp_", "fw_"): (
        r"\br8_[A-Za-z0-9]{32,}|\bxai-[A-Za-z0-9]{40,}|\brpa_[A-Za-z0-9]{32,}|\blsv2_(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{8,}"
        r"|\btgp_v1_[A-Za-z0-9_-]{32,}|\bfw_(?=[A-Za-z]{0,23}\d)[A-Za-z0-9]{22,24}\b"
    ),
    ("figd_", "figo_", "figor_", "figu_", "figuh_", "tfp_", "nrak-", "nrii-", "nrjs-", "atatt", "atctt", "atbb"): (
        r"\bfig(?:d|or?|uh?)_[A-Za-z0-9_-]{32,}|\btfp_[\w=.-]{50,}|\bNR(?:AK|II|JS)-[A-Za-z0-9_-]{19,}|\bAT[AC]TT\d[\w=.-]{30,}"
        r"|\bATBB[A-Za-z0-9]{24,}"
    ),
    ("munge:",): r"\bMUNGE:[A-Za-z0-9+/=]{20,}:?",
    ("k10",): r"\bK10[0-9a-f]{20,}::[\w.:-]{1,60}:[^\s\"':]{6,}",
    ("ls0tls1crudjtib",): r"\bLS0tLS1CRUdJTiB(?:SU0Eg|PUEVOU1NI|QUklWQVRF|FQyBQUklW|FTkNSWVBURUQ|EU0Eg)[A-Za-z0-9+/=]{10,}",
    ("aq.",): r"\bAQ\.[A-Za-z0-9_-]{30,}",
    ("cfut_", "cfat_", "cfk_", "cfoat_"): r"\bcf(?:ut|at|k|oat)_[A-Za-z0-9_-]{20,}",
    ("pat.", "sat.", "pat"): r"\b[ps]at\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}\b|\bpat[A-Za-z0-9]{14}\.[a-f0-9]{64}\b",
    ("swmtkn-", "gocspx-", "whsec_", "bkua_", "ccipat_", "atta", "oy2"): (
        r"\bSWMTKN-1-[a-z0-9]{30,}-[a-z0-9]{20,}|\bGOCSPX-[A-Za-z0-9_-]{20,}|\bwhsec_[A-Za-z0-9+/=]{24,}|\bbkua_[a-f0-9]{36,}"
        r"|\bCCIPAT_[A-Za-z0-9]{20,}_[a-f0-9]{36,}|\bATTA[a-f0-9]{64}\b|\boy2[a-z0-9]{43}\b"
    ),
    ("nfp_", "sbp_", "sb_secret_", "re_", "phx_", "tvly-", "esecret_", "aph0_", "ls__", "pat-", "akid", "csk-", "sk_"): (
        r"\bnfp_[A-Za-z0-9]{32,}|\bsbp_[a-f0-9]{40}|\bsb_secret_[A-Za-z0-9_-]{20,}|\bre_[A-Za-z0-9]{8}_[A-Za-z0-9]{20,}|\bphx_[A-Za-z0-9]{32,}"
        r"|\btvly-[A-Za-z0-9-]{20,}|\besecret_[A-Za-z0-9]{20,}|\baph0_[A-Za-z0-9_-]{20,}|\bls__[a-f0-9]{32}|\bpat-(?:na|eu)\d-[a-f0-9-]{30,}"
        r"|\bAKID(?=[A-Za-z]{0,31}\d)[A-Za-z0-9]{32}\b|\bcsk-[a-z0-9]{40,}|\bsk_(?=[a-f]{0,40}\d)[a-f0-9]{40,}"
    ),
    ("eyjhdxrocyi6", "eyjhcglfywrkcmvzcyi6", "eyj0b2tlbii6", "eyjwyxnzd29yzci6", "eyj1c2vybmftzsi6", "eyjhijoi", "eyjhy2nlc3"): (
        r"(?<![A-Za-z0-9+/])eyJ(?:hdXRocyI6|hcGlfYWRkcmVzcyI6|0b2tlbiI6|wYXNzd29yZCI6|1c2VybmFtZSI6|hIjoi|hY2Nlc3)[A-Za-z0-9+/_=-]{16,}"
    ),
    ("mii", "mig", "mih", "mc4caqawbqydk2v", "b3blbnnzac1rzxkt"): (
        r"(?<![A-Za-z0-9+/])(?:MII[A-Z][A-Za-z0-9+/][AQgw]IB(?=A)|M(?:HcCAQEEI|IGkAgEBBD|IHcAgEBBEI|IGHAgEAMBM|IG2AgEAMBA|IHuAgEAMBA)"
        r"|MC4CAQAwBQYDK2V|b3BlbnNzaC1rZXktdjEA|MII[A-Z][A-Za-z0-9+/](?:TBOBgkqhkiG9w0BBQ0w|DBOBgkqhkiG9w0BBQ0w|TBfBgkqhkiG9w0BBQ0w|DBABgkqhkiG9w0BBQ0w))"
        r"[A-Za-z0-9+/]{16,}={0,2}"
    ),
    ("u+",): r"(?<![\w+])u\+(?=[\w-]{0,19}\d)(?=[\w-]{0,19}[A-Z])[A-Za-z0-9_-]{18,20}(?![\w+-])",
    (
        "s.",
        "b.aaaaaq",
    ): r"(?<![\w./-])s\.(?=[A-Za-z]{0,23}\d)(?=[a-z0-9]{0,23}[A-Z])(?=[A-Z0-9]{0,23}[a-z])[A-Za-z0-9]{24}(?![\w./-])|\bb\.AAAAAQ[\w-]{60,}",
    ("1//0",): r"(?<![\w/])1//0[A-Za-z0-9_-]{30,}",
    ("/hooks/", "/with/key/"): (
        r"(?<=/hooks/)[a-z0-9]{26}\b|(?<=/hooks/catch/)\d{4,12}/[a-z0-9]{5,12}|(?<=/with/key/)[\w-]{20,}|(?<=/hooks/)[A-Za-z0-9]{17}/[A-Za-z0-9]{40,}"
    ),
    ("outlook.office",): r"(?<=outlook\.office\.com/)webhook/[A-Za-z0-9/@-]{10,}",
    tuple(f"{two}{last}" for two in ("md", "mt", "mj", "mz", "nd", "nt", "nj", "nz", "od", "ot") for last in "aeimquycgk"): (
        r"(?<![\w.-])(?:[MNO][DTjz][AEIMQUYcgk][w-z0-5]){5,6}[A-Za-z0-9]{0,4}\.[\w-]{6}\.[\w-]{27,40}(?![\w-])"
    ),
}

TOKEN_FORMS = tuple((needles, re.compile(form)) for needles, form in _FORM_TEXTS.items())

# may occur inside a word; the others start at a word or with a sign
INNER_NEEDLES = ("webhook.office.com", "_gitlab_session", "q~")
