"""Secrets marked by context in one line: assignment, header, URL, option, sentence.

Patterns have a `head`, which stays, and a `value`; all are bounded. A rule is tried only on lines with one of its
needles.
"""

import re
from dataclasses import dataclass

_QUOTED = (
    r"""(?P<escape>\\{1,6})"[^\n]{0,4096}?(?<!\\)(?=(?P=escape)")|\\{1,6}"[^"\\\n]{0,4096}|"(?:[^"\\\n]|\\.){0,4096}"?|'[^'\n]{0,4096}'?"""
)
VALUE_REGEX = rf"""(?P<value>{_QUOTED}|[^\s"'\\,;&|<>(){{}}]{{1,4096}})"""
_WORD = rf"""(?P<value>{_QUOTED}|[^\s"'\\|;]{{1,4096}})"""
_NAMES = (
    r"(?:pass(?:word|wd|phrase|wort|code)|kennwort|wachtwoord|mot de passe|contrasena|(?<![a-z])pwd(?!=?/)|(?<![a-z0-9])pw(?=[\"' \t]{0,4}[=:])"
    r"|(?:bind|root|admin|user|db)pw(?=[\"' \t]{0,4}[=:])|(?<!by)(?<![ \t])pass(?=[\"']?[=:])|(?<![a-z])psk(?=[\"' \t]{0,4}[=:])"
    r"|secret|credentials?(?![a-z]*/)|art-api|api[_-]?key|access[_-]?key(?![_-]?id)|private[_-]?key|preshared[_-]?key|dockerconfigjson|"
    r"client[_-]key[_-]data|account[_-]?key|signing[_-]?key|encryption[_-]?key|token(?!s|i[sz]|_?(?:type|count|len|id\b|per|num))|"
    r"auth[_-]?key|\bsignature|\bsas\b|(?<=[?&;])sig(?==))"
)
ASSIGNED_PATTERN = re.compile(
    rf"""(?P<head>{_NAMES}[\w-]{{0,40}}(?:\\{{0,6}}["'`*]{{1,3}}\]?)?[ \t]{{0,40}}(?:=>|:=|={{1,2}}|:)(?:[*`]{{1,3}})?"""
    rf"""[ \t]{{0,40}}`?(?:!(?:vault|secret|unsafe|encrypted|!str|!binary)[ \t]{{1,4}})?){VALUE_REGEX}""",
    re.IGNORECASE,
)
# prefilter on a lower-case line without the value: most lines with `token` assign nothing
MAYBE_ASSIGNED_PATTERN = re.compile(rf"""{_NAMES}[\w-]{{0,40}}\\{{0,6}}["'`*]{{0,3}}\]?[ \t]{{0,40}}[=:]""")
# fast prefilter from the needle to the sign
SIGN_FOLLOWS_PATTERN = re.compile(r"""[\w-]{0,96}\\{0,6}["'`*]{0,3}\]?[ \t]{0,40}[=:]""")
# unambiguous password names, for which all-digit values count as secrets too
PASSWORD_NAME_PATTERN = re.compile(
    r"(?:^|[^A-Za-z])(?:password|passwd|passphrase|passwort|kennwort)\\{0,6}[\"'`*]{0,3}\]?[ \t]{0,40}(?:=>|:=|={1,2}|:)[*`]{0,3}[ \t]{0,40}`?$",
    re.IGNORECASE,
)
MAX_PREFIX_CHARS = 16  # of a name before its needle: `encryption_` of `encryption_key`
MAX_NAME_CHARS = 132  # from a name's beginning to its sign
SECRET_NAME_NEEDLES = ("pass", "pw", "psk", "sig=", "kennwort", "woord", "secret", "credential", "contrasena", "art-api", "key", "token", "signature", "sas",
         "dockerconfigjson")  # fmt: skip

_APART = r"""(?:[ \t]{1,4}|["'],[ \t]{0,4})"""  # separates words of a command: blanks, or quotes and comma in a list
_FLAG_PATTERN = re.compile(
    rf"(?P<head>(?<![\w-])--?(?:[\w-]{{0,40}}[-_])?(?:password|passwd|passphrase|pass|[a-z]{{0,8}}(?:storepass|keypass)|requirepass|token|secret|api[-_]?key|wandb[-_]key|"
    rf"(?:secret|access|private)[-_]key){_APART})(?!-){_WORD}",
    re.IGNORECASE,
)
_ENV_PATTERN = re.compile(rf"(?P<head>\b[A-Z][A-Z0-9_]{{0,80}}_(?:KEY|PAT|PASS|PWD|PW|AUTH|CREDS|TOKEN|SECRET)=){VALUE_REGEX}")
_DOCKER_PATTERN = re.compile(
    r"""(?P<head>"(?:auth|identitytoken|registrytoken)"[ \t]{0,4}:[ \t]{0,4})(?P<value>"[A-Za-z0-9+/=._-]{8,4096}")"""
)
_HEADER_PATTERN = re.compile(
    r"""(?P<head>\b(?:proxy-)?authorization\\{0,6}["']?[ \t]{0,4}[:=][ \t]{0,4}\\{0,6}["']?(?:(?:bearer|basic|token|digest|negotiate|apikey|geniekey|"""
    r"""splunk|ssws|apitoken|api-key|sso-key|key|bot|oauth|hawk|aws4-hmac-sha256)[ \t]{1,4})?)"""
    r"""(?P<value>[^\s"'\\,;<>]{1,4096})""",
    re.IGNORECASE,
)
_BEARER_PATTERN = re.compile(r"(?P<head>\b(?:bearer|basic)[ \t]{1,4})(?P<value>[A-Za-z0-9._~+/=-]{16,4096})", re.IGNORECASE)
_URL_PATTERN = re.compile(
    r"""(?P<head>\b[a-z][a-z0-9+.-]{1,20}://[^\s:/@"'<>]{0,128}:)(?!\d{1,5}[/?#])(?P<value>(?:[^\s/@"'<>]|/(?!/)){1,512}"""
    r"""(?:@[^\s/@"'<>?#,;&\[]{1,128}){0,4})(?=@)""",
    re.IGNORECASE,
)
_URL_USER_PATTERN = re.compile(r"""(?P<head>://)(?P<value>[\w~.=-]{20,256})(?=(?::[^\s/@"'<>]{0,64})?@)""")
_URL_OAUTH_PATTERN = re.compile(r"""(?P<head>://)(?P<value>[^\s:/@"'<>]{6,256})(?=:x-oauth-basic@)""", re.IGNORECASE)
_URL_KEY_PATTERN = re.compile(
    r"(?P<head>[?&](?:key|code)=)(?P<value>(?=[^\s&]{0,80}\d)(?=[^\s&]{0,80}[a-z])(?=[^\s&]{0,80}[A-Z])[\w-]{20,400})(?![\w.])"
)
_VENDOR_PATTERN = re.compile(r"(?P<head>wandb[^\n]{0,60}?\b)(?P<value>(?:local-)?[0-9a-f]{40})\b", re.IGNORECASE)
_TWILIO_PATTERN = re.compile(r"(?P<head>twilio[^\n]{0,60}?\b)(?P<value>(?:AC|SK)?[0-9a-f]{32})\b", re.IGNORECASE)
_DISCORD_PATTERN = re.compile(r"(?P<head>discord[^\n]{0,60}?\b)(?P<value>[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,})", re.IGNORECASE)
_SLACK_HOOK_PATTERN = re.compile(r"(?P<head>\bhooks\.slack\.com/)(?P<value>(?:services|workflows|triggers)/[A-Za-z0-9/_-]{10,400})")
_COOKIE_PATTERN = re.compile(r"(?P<head>\b(?:set-)?cookie: )(?P<value>[^\n]{1,4096})", re.IGNORECASE)
_XML_PATTERN = re.compile(
    r"(?P<head><[\w:-]{0,40}(?:password|passwd|secret|token|api_?key|(?:private|access|secret)key)[\w:-]{0,20}(?:[ \t][^<>\n]{0,200})?(?<!/)>)"
    r"(?P<value>[^<\s]{1,4096})(?=<)",
    re.IGNORECASE,
)
_XML_PAIR_PATTERN = re.compile(
    rf"""(?P<head>\b(?:name|key)="[^"\n]{{0,60}}(?:password|passwd|secret|token|api_?key)[^"\n]{{0,40}}"[ \t]{{1,4}}value=){VALUE_REGEX}""",
    re.IGNORECASE,
)
_XML_NAMED_PATTERN = re.compile(
    r"(?P<head><name>[^<\n]{0,80}(?:password|passwd|secret|token|api[._]?key|access\.key)[^<\n]{0,40}</name>[ \t]{0,20}<value>)"
    r"(?P<value>[^<\s]{1,4096})(?=<)",
    re.IGNORECASE,
)


def _build_option_pattern(commands: str, option: str) -> re.Pattern[str]:
    """For these commands only: `-p` has other meanings elsewhere."""
    return re.compile(rf"""(?P<head>\b(?:{commands})\b[^\n|]{{0,300}}?(?<=[\s"'])(?:{option})){_WORD}""")


_SSHPASS = _build_option_pattern("sshpass", rf"-p{_APART}?")
_LOGIN = _build_option_pattern(r"(?:docker|podman|nerdctl|helm|skopeo|buildah|oras|crane)\b[^\n|]{0,60}?\blogin", rf"-p{_APART}?")
_MYSQL = _build_option_pattern("mysql|mysqldump|mysqladmin|mysqlimport|mysqld|mariadb|mariadb-dump", r"-p[ \t]{0,4}")
_BMC = _build_option_pattern("ipmitool|ipmi-[a-z]{2,20}|ipmipower", rf"(?:-P{_APART}?|-[ky]{_APART})(?!\[redacted)")
_BMC_SET_PATTERN = re.compile(
    rf"(?P<head>\bipmitool\b[^\n|]{{0,300}}?\buser[ \t]{{1,4}}set[ \t]{{1,4}}password[ \t]{{1,4}}\d{{1,2}}[ \t]{{1,4}}){_WORD}"
)
_RACADM = _build_option_pattern(
    "racadm|ipmi-[a-z]{2,20}|ipmi(?:power|console)|redfishtool|mongo(?:sh|s|dump|restore)?|sshfs|htpasswd", rf"-p{_APART}"
)
_HTPASSWD_PATTERN = re.compile(
    rf"(?P<head>\bhtpasswd[ \t](?:-[A-Za-z]{{1,8}}[ \t]{{1,4}}){{0,3}}?"
    rf"(?:-(?=\w{{0,8}}n)\w{{0,8}}b\w{{0,8}}[ \t]{{1,4}}|-\w{{0,8}}b\w{{0,8}}[ \t]{{1,4}}(?:-\w{{1,8}}[ \t]{{1,4}}){{0,3}}[^\s-]\S{{0,200}}[ \t]{{1,4}})"
    rf"[^\s-]\S{{0,80}}[ \t]{{1,4}}){_WORD}"
)
_ZIP = _build_option_pattern("zip|unzip|zipcloak", rf"-P{_APART}?")
_SEVEN = _build_option_pattern("7z[ar]?", r"-p(?!-)")
_NEW_USER = _build_option_pattern("useradd|usermod", rf"-p{_APART}")
_SNMP_USER = _build_option_pattern(
    r"snmp(?:walk|get|getnext|bulkwalk|bulkget|set|table|status|trap)", rf"-[AXc]{_APART}(?!\[redacted|public\b)"
)
_CURL_COOKIE = _build_option_pattern("curl", rf"(?:-b|--cookie){_APART}(?=\S{{1,80}}=)")
_REDIS = _build_option_pattern("redis-cli|keydb-cli|valkey-cli", rf"(?:-a|--pass){_APART}")
_LDAP = _build_option_pattern("ldap(?:search|modify|add|whoami|passwd|delete)", rf"-w{_APART}?")
_OPENSSL = _build_option_pattern("openssl", rf"-(?:k|K|pass(?:in|out)?){_APART}(?:pass:)?")
_STORE = _build_option_pattern("mc", rf"alias{_APART}set{_APART}\S{{1,80}}{_APART}\S{{1,200}}{_APART}\S{{1,200}}{_APART}")
_LOGS_IN = _build_option_pattern("wandb|vault|huggingface-cli|hf", rf"login{_APART}(?!-)")
_USER_PATTERN = re.compile(
    r"""(?P<head>\b(?:curl|lftp|smbclient|wget|http)\b[^\n|]{0,300}?(?<=[\s"'])"""
    r"""(?:-[sSkLfgiInNvjJaOR#]{0,8}u|-U|--user|--proxy-user)[ \t=]{0,4}["']{0,2},?[ \t]{0,4}["']?"""
    r"""[^\s:,%"']{1,128}[:,%])(?!//)(?P<value>[^\s"']{1,4096})"""
)
_SET_PATTERN = re.compile(
    r"(?P<head>(?:secret_access_key|api[-_]?key|secret[-_]key)[ \t]{1,4})(?P<value>[A-Za-z0-9+/=_-]{16,4096})(?![\w:=])", re.IGNORECASE
)
# programs that read a secret from stdin
_READS_IT = (
    r"(?:password-stdin|passwd|sudo[ \t]-[A-Za-z]{0,4}S|kinit|kadmin|ktutil|cryptsetup|smbpasswd|pdbedit|realm[ \t]join|net[ \t]ads[ \t]join|--with-token|"
    r"vault[ \t]login|ipmitool|gpg\b[^\n]{0,80}--passphrase-fd|openssl\b[^\n]{0,80}stdin|(?:huggingface-cli|hf|wandb|ngc|az|op)[ \t][^\n|]{0,40}\blogin)"
)
_ECHO_PATTERN = re.compile(
    rf"""(?P<head>\b(?:echo|printf)[ \t]{{1,4}}(?:-[neE]{{1,3}}[ \t]{{1,4}})?(?:["']?%s(?:\\n)?["']?[ \t]{{1,4}})?){_WORD}"""
    rf"""(?=[ \t]{{0,4}}\|[^\n]{{0,80}}{_READS_IT})"""
)
_HERE_PATTERN = re.compile(rf"(?P<head>(?<!\w){_READS_IT}[^\n]{{0,200}}?<<<[ \t]{{0,4}}){_WORD}")

_MIXED = r"""(?=[^\s"'`]{0,80}\d)(?=[^\s"'`]{0,80}[A-Za-z])"""
# a sign inside a word, unlike words of a sentence
_SIGNED = r"""(?=[^\s"'`]{1,80}[!@#$%^&*+~?][^\s"'`.,;:!?])(?=[^\s"'`]{0,80}[A-Za-z])"""
_CALLED_SO = r"(?:password|passwd|passphrase|passcode|pw|pwd|passwort|kennwort|wachtwoord|mot[ \t]de[ \t]passe|contrasena|senha)"
_SAID_PATTERN = re.compile(
    rf"""(?P<head>\b{_CALLED_SO}(?:[ \t]{{1,2}}(?:is|was|ist|lautet))?[ \t]{{1,4}}(?:["'`*]{{0,3}}))(?!\[)"""
    rf"""(?P<value>{_MIXED}[^\s"'`,;:()<>=]{{6,200}})""",
    re.IGNORECASE,
)
_IS = r"(?:is|was|are|be|remains|becomes|ist|war|lautet|heißt|heisst|est|es|era|é|è)"
_IS_UNSPACED = "[是为為는은は]"
# sentences that name the password's target: `the password on that node is …`, `das Passwort von gpu-017 lautet …`
_SAID_OF_PATTERN = re.compile(
    rf"""(?P<head>(?<![A-Za-z0-9_]){_CALLED_SO}(?:[ \t]{{1,2}}[\w./@'’()-]{{1,40}}){{0,8}}?(?:[ \t]{{1,2}}{_IS}|[ \t]{{0,2}}{_IS_UNSPACED})"""
    rf"""(?:[ \t]{{1,2}}(?:now|still|currently|again|jetzt|noch|nun)|:)?"""
    rf"""(?:[ \t]{{1,4}}|(?<=[是为為는은は])[ \t]{{0,4}})["'`*]{{0,3}})(?!\[)(?P<value>(?:{_MIXED}|{_SIGNED})[^\s"'`,;:()<>=]{{6,200}})""",
    re.IGNORECASE,
)
_AS_PASSWORD_PATTERN = re.compile(
    rf"""(?P<head>(?:^|[\s"'`(:]))(?P<value>{_MIXED}[^\s"'`,;:()<>=]{{6,80}})(?=["'`]{{0,2}}[ \t](?:is|as|ist|als|comme|como)[ \t]"""
    rf"""(?:(?:the|a|my|our|its|new|das|dem|mein|unser|neues?|root|admin|bmc|ipmi|sudo|user|ldap|wifi)[ \t]){{0,3}}{_CALLED_SO}(?![\w-]))""",
    re.IGNORECASE,
)
_PROMPT_PATTERN = re.compile(
    rf"""(?P<head>\b{_CALLED_SO}[ \t](?:for|of|on|for[ \t]key|für|von|auf|de|pour|para)[ \t](?:'[^'\n]{{1,200}}'|"[^"\n]{{1,200}}"|[^\n:'"]{{1,80}})"""
    rf"""[ \t]{{0,2}}:[ \t]{{1,4}})(?!\[)(?P<value>(?:{_MIXED}|{_SIGNED})[^\s"'`,;()<>=]{{6,200}})(?=[ \t\r]*$)""",
    re.IGNORECASE,
)
# prompts with the current value in brackets: `AWS Secret Access Key [None]: …`
_BRACKETED_PATTERN = re.compile(
    rf"""(?P<head>\b(?:{_CALLED_SO}|passcode|secret|token|key)[ \t]?(?:\[[^\]\n]{{0,80}}\]|\([^)\n]{{0,80}}\))"""
    rf"""[ \t]{{0,2}}[:=][ \t]{{1,4}})(?!\[)(?P<value>{_MIXED}(?![\d.,]{{1,12}}[A-Za-z/%]{{1,8}}(?:[\s,;]|$))[^\s"'`,;()<>]{{6,400}})""",
    re.IGNORECASE,
)
_SPACED_PATTERN = re.compile(
    r"""(?P<head>\b(?:api|access|secret|account|signing|encryption|session|auth|bearer|security|license|licence|product|service|personal|deploy|"""
    r"""private|unseal|recovery|master|shared|pre-?shared|root)[ \t](?:access[ \t])?(?:key|token|secret)"""
    r"""(?:[ \t]\d{1,2})?[ \t]{0,4}[:=][ \t]{0,4}["'`]{0,2})"""
    r"""(?![\[/~.]|(?:sha\d+|md5)[:-])(?P<value>(?=[^\s]{0,120}\d)(?=[^\s]{0,120}[A-Za-z])[A-Za-z0-9._~+/=!@#$%^&*-]{12,400})(?![\w:])""",
    re.IGNORECASE,
)
_LOGFMT_PATTERN = re.compile(
    rf"""(?P<head>(?:^|(?<=[ \t]))pass=["']?)(?!\[|(?:fwd|bwd|fw|bw|forward|backward|pass|phase|stage|step|iter|iteration|round|attempt|test|epoch|run|batch|"""
    rf"""rank|gpu|node|case|opt|compile|all)[\w./-]{{0,24}}(?:["'\s,;]|$)|\d[\d.,:]{{0,12}}(?:of|/)?\d{{0,8}}[A-Za-z%]{{0,5}}(?:["'\s,;]|$))"""
    rf"""(?P<value>(?:{_MIXED}|{_SIGNED})[^\s"'`,;()<>|]{{6,400}})""",
    re.IGNORECASE,
)
_USER_LOGFMT_PATTERN = re.compile(
    rf"""(?P<head>\b(?:user(?:name)?|usr|login|uid|account)=[^\s,;&]{{1,80}}[ \t,;&]{{1,4}}(?:[^\s=]{{1,40}}=[^\s]{{0,80}}[ \t]{{1,4}}){{0,3}}?pass=){VALUE_REGEX}""",
    re.IGNORECASE,
)
_YAML_PASS_PATTERN = re.compile(
    rf"""(?P<head>^[ \t]{{1,40}}(?:-[ \t]{{1,4}})?pass:[ \t]{{1,8}}["']?)(?!\[|\d[\d.,]{{0,12}}[A-Za-z%]{{0,5}}["']?[ \t\r]*$)"""
    rf"""(?P<value>(?:{_MIXED}|{_SIGNED})[^\s"'`,;()<>|]{{6,400}})(?=["']?[ \t\r]*$)""",
    re.IGNORECASE,
)
_SEND_PATTERN = re.compile(
    r"""(?P<head>ass(?:word|phrase|code)[^\n]{0,120}?\bsend(?:line)?\b[ \t(]{1,4}(?:--[ \t]{1,4})?[bru]?\\{0,6}(?=["']))"""
    r"""(?!["']\$)(?P<value>"[^"\n\\]{1,400}|'[^'\n\\]{1,400})""",
    re.IGNORECASE,
)
_LOGIN_PAIR_PATTERN = re.compile(
    rf"""(?P<head>\b(?:log[ -]?ins?|creds?|credentials?|user|account|access|ssh|bmc|ipmi|zugang|zugangsdaten|anmeldung)\b[^\n]{{0,60}}?"""
    rf"""(?<![\w/.~@-])(?:root|admin|administrator|ubuntu|userid|sysadmin|operator|cumulus|user)[ \t]?/[ \t]?["'`]?)"""
    rf"""(?!\[)(?P<value>{_MIXED}[^\s"'`,;:()<>=/]{{6,80}})(?![/\w])""",
    re.IGNORECASE,
)
_NET_USE_PATTERN = re.compile(
    r"""(?P<head>\bnet[ \t]use[ \t]{1,4}(?:\S{1,4}[ \t]{1,4})?(?:\\|//)[^\s"']{1,200}[ \t]{1,4})(?!/|\[)(?P<value>[^\s"']{1,200})""",
    re.IGNORECASE,
)
_AUTH_PATTERN = re.compile(
    r"""(?P<head>(?:^|[\s"'>:\]])AUTH[ \t"',]{1,4}(?:(?:PLAIN|LOGIN|CRAM-MD5|default|[\w.-]{1,32})[ \t"',]{1,4})?)(?!\[|TLS|SSL|SHA|MD5|HMAC)"""
    r"""(?P<value>(?=[^\s"'`]{0,80}\d)(?=[^\s"'`]{0,80}[A-Za-z])[^\s"'`,;:()<>]{8,400}={0,2})(?=["']{0,2}[ \t\r]*$)"""
)
_K8S_LITERAL_PATTERN = re.compile(rf"""(?P<head>--from-literal[= \t]["']?[\w.-]{{1,80}}=){_WORD}""")
_PAIR_OPTION_PATTERN = re.compile(
    rf"""(?P<head>(?<![\w-])--?(?:(?:src-|dest-)?creds|auth|basic-auth|user-pass|credentials)[= \t]["']?[^\s:"']{{1,80}}:)(?!//){_WORD}""",
    re.IGNORECASE,
)
_HASH_USER_PATTERN = re.compile(rf"""(?P<head>\bchpasswd\b[^\n]{{0,40}}?[\w.-]{{1,32}}:)(?P<value>(?!\[){_MIXED}[^\s"'`]{{6,200}})""")
_SAID_KEY_PATTERN = re.compile(
    r"""(?P<head>\b(?:token|api[ _-]?key|secret|key)(?:[ \t]{1,2}(?:is|was))?[ \t]{1,4}["'`*]{0,3})"""
    r"""(?!(?:[^\s/]{0,80}/){1,8}/|(?=[^\s/]{0,80}/)[^\s_]{0,80}_)"""
    r"""(?P<value>(?=[^\s]{0,80}\d)(?=[^\s]{0,80}[a-z])(?=[^\s]{0,80}[G-Zg-z])[A-Za-z0-9_+/=-]{24,400})(?![\w./:])""",
    re.IGNORECASE,
)
_USER_PASS_PATTERN = re.compile(r"(?P<head>\buser/pass(?:word)?:[ \t]{0,4}[^\s/]{1,40}/)(?P<value>\S{4,200})", re.IGNORECASE)
_NETRC_PATTERN = re.compile(
    r"(?P<head>\b(?:machine[ \t]{1,4}\S{1,200}|default)[ \t][^\n]{0,200}?\bpassword[ \t]{1,4})(?P<value>\S{1,400})", re.IGNORECASE
)
_DIRECTIVE_PATTERN = re.compile(
    r"(?P<head>^[ \t]{0,40}(?:password|requirepass|masterauth|bindpw|rootpw|sasl-password)[ \t]{1,8}"
    r"(?:--(?:plaintext|iscrypted|lock)[ \t]{1,4})?)(?!-)(?P<value>[^\s=:]{6,400})(?=[ \t\r]*$)",
    re.IGNORECASE,
)
_PASS_LINE_PATTERN = re.compile(r"(?P<head>^[ \t]{0,40}(?:pass|password2?)[ \t]{0,8}=[ \t]{0,8})(?P<value>\S{8,400})", re.IGNORECASE)
_PGPASS_PATTERN = re.compile(r"(?P<head>^[\w.*-]{1,200}:(?:\d{2,5}|\*):[\w*-]{1,80}:[\w*-]{1,80}:)(?P<value>\S{4,200})$")
_SNMP_PATTERN = re.compile(r"(?P<head>\bcommunity[ \t]{1,4})(?P<value>[^\s=:]{4,80})(?=[ \t]{1,4}R[OW]\b)", re.IGNORECASE)
_COMMUNITY_PATTERN = re.compile(r"(?P<head>^[ \t]{0,20}r[ow]community6?[ \t]{1,20})(?!public\b)(?P<value>[^\s=:]{4,80})")
_SHADOW_PATTERN = re.compile(r"(?P<head>\b[A-Za-z_][\w-]{0,31}:)(?P<value>[A-Za-z0-9./]{13})(?=:\d{1,6}:\d{0,6}:\d{0,6}:\d{0,6}:)")
_SQL_PATTERN = re.compile(
    r"""(?P<head>(?:\bIDENTIFIED|\b(?:user|to)[ \t]{1,4}\S{1,120}[ \t]{1,4}identified)[ \t]{1,4}(?:(?:with|WITH)[ \t]{1,4}\S{1,60}[ \t]{1,4})?(?:by|BY|as|AS)"""
    r"""[ \t]{1,4}(?:(?:password|PASSWORD)[ \t]{1,4})?)(?P<value>'[^'\n]{1,400}'?|"[^"\n]{1,400}"?)"""
)

_USER_COLON_PATTERN = re.compile(
    rf"""(?P<head>\b(?:user(?:name)?|login|u)[ \t]?:[ \t]{{0,4}}[^\s,;]{{1,80}}[ \t,;/]{{1,6}}(?:pass|pw|p)[ \t]?:[ \t]{{1,4}})"""
    rf"""(?!\[)(?P<value>(?:{_MIXED}|{_SIGNED})[^\s"'`,;()<>]{{6,200}})""",
    re.IGNORECASE,
)
# password words of other languages
_ELSEWHERE_PATTERN = re.compile(
    rf"""(?P<head>(?<![\w-])(?:mdp|clave|senha|has[łl]o|heslo|lozinka|salasana|jelszó)["']?[ \t]{{0,8}}[:=]{{1,2}}[ \t]{{0,4}}["'`]?)"""
    rf"""(?!\[)(?P<value>(?:{_MIXED}|{_SIGNED})[^\s"'`,;()<>]{{6,200}})""",
    re.IGNORECASE,
)
_LABELLED_PATTERN = re.compile(
    rf"""(?P<head>[\[("'](?:{_CALLED_SO}|token|secret|api[_-]?key)[\])"'][ \t,:]{{1,4}}["'`]?)(?!\[)(?P<value>{_MIXED}[^\s"'`,;:()<>=]{{6,400}})""",
    re.IGNORECASE,
)
_TUPLE_PATTERN = re.compile(
    r"""(?P<head>\bauth[ \t]{0,4}=[ \t]{0,4}\([ \t]{0,4}["'][^"'\n]{1,80}["'],[ \t]{0,4}["'])(?!\[redacted)(?P<value>[^"'\n]{1,200})"""
)
_SESSION_PATTERN = re.compile(
    r"""(?P<head>\b(?:JSESSIONID|PHPSESSID|sessionid|ASP\.NET_SessionId|connect\.sid)=)(?P<value>[^\s"',;&\[]{12,400})""", re.IGNORECASE
)
_RDP_PATTERN = re.compile(
    r"""(?P<head>\b(?:xfreerdp|wlfreerdp|mstsc|rdesktop)\b[^\n]{0,300}?[ \t](?:/p:|-p[ \t]{1,4}))(?P<value>[^\s"']{1,200})"""
)
_PERCENT_PATTERN = re.compile(
    r"""(?P<head>\b(?:winexe|rpcclient|smbget|wmic|net|nmblookup)\b[^\n]{0,200}?(?:-U|--user)[ \t=]{0,4}["']?[^\s%"']{1,80}%)(?P<value>[^\s"']{1,200})"""
)
# settings of switches and routers
_SWITCH_PATTERN = re.compile(
    r"""(?P<head>\b(?:enable secret|username \S{1,60}(?: privilege \d{1,2})? (?:secret|password)|(?:tacacs|radius)-server[^\n]{0,80}? key|"""
    r"""snmp-server user[^\n]{0,120}? """
    r"""(?:auth|priv) \S{1,10}|plain-text-password-value|ip ospf message-digest-key \d{1,3} md5|neighbor \S{1,60} password)[ \t]{1,4}(?:[0-9][ \t]{1,4})?)"""
    r"""(?!\[|\d[ \t])(?P<value>[^\s"']{6,200})""",
    re.IGNORECASE,
)
_KV_PUT_PATTERN = re.compile(
    r"""(?P<head>\b(?:vault[ \t]kv[ \t](?:put|patch)|vault[ \t]write)\b[^\n|]{0,300}?[ \t][\w.-]{1,80}=)(?!\[redacted|@)(?P<value>[^\s"']{1,400})"""
)
_JWK_PATTERN = re.compile(r"""(?P<head>"(?:d|p|q|dp|dq|qi|k)"[ \t]{0,4}:[ \t]{0,4}")(?P<value>[A-Za-z0-9_.-]{16,1400})(?=")""")
_WPA_PATTERN = re.compile(rf"""(?P<head>\bwpa_passphrase[ \t]{{1,4}}(?:"[^"\n]{{1,80}}"|\S{{1,80}})[ \t]{{1,4}}){_WORD}""")
_SQLCMD = _build_option_pattern("sqlcmd|bcp|osql|isql|psexec(?:64)?|paexec", rf"-[pP]{_APART}?")


def _build_mixed_lookahead(ends: str) -> str:
    """Require a digit and a letter before `ends`."""
    return rf"(?=[^{ends}]{{0,80}}\d)(?=[^{ends}]{{0,80}}[A-Za-z])"


_IN_CELL = _build_mixed_lookahead(r"\s|│┃")
_SHORT = _build_mixed_lookahead(r"\s\"'`,;:()<>=/")
# needles of `_CALLED`; not `token` alone, which training logs repeat in every line
_NAMED = ("password", "passwd", "passphrase", "secret_key", "secretkey", "api_key", "apikey", "access_key", "accesskey", "_token", "_secret",
          "_pass", "_pwd")  # fmt: skip
_CALLED = r"[\w.-]{0,40}(?:password|passwd|passphrase|secret_?key|api_?key|access_?key|_(?:token|secret|pass|pwd))"
_CELL_PATTERN = re.compile(
    rf"""(?P<head>[|│┃][ \t]{{0,40}}{_CALLED}[ \t]{{0,40}}[|│┃][ \t]{{0,40}})(?P<value>{_IN_CELL}[^\s|│┃]{{6,400}})(?=[ \t]{{0,200}}[|│┃])""",
    re.IGNORECASE,
)
_ARROW_PATTERN = re.compile(
    rf"""(?P<head>{_CALLED}["'`]{{0,2}}[ \t]{{0,4}}(?:->|→)[ \t]{{0,4}}["'`]{{0,2}})(?P<value>{_SHORT}[^\s"'`,;()]{{6,400}})""",
    re.IGNORECASE,
)
_TWO_CELLS_PATTERN = re.compile(
    rf"""(?P<head>^[ \t]{{0,20}}["']?{_CALLED}["']?,["']?)(?P<value>{_SHORT}[^\s"'`,;()]{{6,400}})(?=["']?[ \t\r]*$)""", re.IGNORECASE
)
_CREDS_PATTERN = re.compile(
    rf"(?P<head>\bcred(?:s|entials)?:?[ \t]{{1,4}}[\w.@-]{{1,40}}[:/])(?P<value>{_SHORT}[^\s\"'`,;:()<>=/]{{6,200}})", re.IGNORECASE
)
_CISCO_PATTERN = re.compile(r"(?P<head>\bpassword[ \t]{1,4}[57][ \t]{1,4})(?P<value>[0-9A-F]{8,400})(?![\w.])")
_JOIN_PATTERN = re.compile(r"(?P<head>\btoken[ \t]{1,4})(?P<value>[a-z0-9]{6}\.[a-z0-9]{16})\b", re.IGNORECASE)
_AWS_PAIR_PATTERN = re.compile(r"(?P<head>\b(?:AKIA|ASIA)[A-Z0-9]{16}[ \t,:]{1,4})(?P<value>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])")
_LIST_PATTERN = re.compile(
    r"""(?P<head>(?:password|passwd|secret|token|api_?key)s?["']?[ \t]{0,4}[:=][ \t]{0,4}\[)"""
    r"""(?P<value>(?=[^\]\n]{0,400}\d)(?=[^\]\n]{0,400}[A-Za-z])[^\]\n\[]{8,4096})(?=\])""",
    re.IGNORECASE,
)


READER_NEEDLES = (
    *("pass", "sudo -", "kinit", "kadmin", "ktutil", "cryptsetup", "smbpasswd", "pdbedit", "realm join", "ads join"),
    *("with-token", "login", "ipmitool", "openssl"),
)
_SAYS_PASSWORD = (
    *("password", "passwd", "passphrase", "passcode", "passwort", "kennwort", "woord", "mot de passe", "contrasena", "senha"),
    *("pw ", "pwd ", "pw\t", "pwd\t"),
)
_VERBS = (
    "?",
    *(f" {verb} " for verb in ("is", "was", "are", "be", "remains", "becomes", "ist", "war", "lautet", "heisst", "est", "es", "era")),
    *(f" {verb}: " for verb in ("is", "was", "ist", "lautet", "est", "es")),
)
# One rule per name, because most lines with one hold no other.
_PROMPT_NAMES = (
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "pw",
    "pwd",
    "passwort",
    "kennwort",
    "wachtwoord",
    "secret",
    "token",
    "key",
)
_LOGIN_NAMES = tuple(
    f"{name}{sign}" for name in ("root", "admin", "istrator", "ubuntu", "userid", "operator", "cumulus") for sign in ("/", " /")
)
_LOGIN_WORDS = ("login", "log in", "log-in", "cred", "user", "account", "access", "ssh", "bmc", "ipmi", "zugang", "anmeld")
_ENDINGS = ("_key=", "_pat=", "_pass=", "_pwd=", "_pw=", "_auth=", "_creds=", "_token=", "_secret=")


@dataclass(frozen=True, slots=True)
class SecretRule:
    """A pattern, tried if the lower-case line holds one of `needles`, and of `also`, if given."""

    needles: tuple[str, ...]
    pattern: re.Pattern[str]
    also: tuple[str, ...] = ()


SECRET_RULES = (
    SecretRule(("://",), _URL_OAUTH_PATTERN, ("x-oauth-basic",)),
    SecretRule(("://",), _URL_PATTERN, ("@",)),
    SecretRule(("://",), _URL_USER_PATTERN, ("@",)),
    SecretRule(("://",), _URL_KEY_PATTERN, ("?key=", "&key=", "?code=", "&code=")),
    SecretRule(("auth",), _HEADER_PATTERN, ("authorization",)),
    SecretRule(("bearer", "basic"), _BEARER_PATTERN),
    SecretRule(("cookie",), _COOKIE_PATTERN),
    SecretRule(("hooks.slack",), _SLACK_HOOK_PATTERN),
    SecretRule(("wandb",), _VENDOR_PATTERN),
    SecretRule(("twilio",), _TWILIO_PATTERN),
    SecretRule(("discord",), _DISCORD_PATTERN),
    SecretRule(("auth", "token"), _DOCKER_PATTERN, ('"auth"', '"identitytoken"', '"registrytoken"')),
    SecretRule(("pass", "secret", "key", "token"), _XML_PATTERN, ("</",)),
    SecretRule(("pass", "secret", "key", "token"), _XML_PAIR_PATTERN, ('value="',)),
    SecretRule(("pass", "secret", "key", "token"), _LIST_PATTERN, (": [", "= [", ":[", "=[")),
    SecretRule(("pass", "secret", "key", "token"), _XML_NAMED_PATTERN, ("</name>",)),
    SecretRule(("pass",), _USER_PASS_PATTERN, ("user/pass",)),
    SecretRule(SECRET_NAME_NEEDLES, ASSIGNED_PATTERN),
    SecretRule(("pass", "token", "secret", "key"), _FLAG_PATTERN, (" -", '"-', "'-")),
    SecretRule(
        ("key", "_pat", "pass", "pw", "auth", "_creds=", "token", "secret"),
        _ENV_PATTERN,
        _ENDINGS,
    ),
    SecretRule(("pass",), _SSHPASS, ("sshpass",)),
    SecretRule(("login",), _LOGIN, (" -p", '"-p', "'-p")),
    SecretRule(("login",), _LOGS_IN, ("wandb", "vault", "hf", "hugging")),
    SecretRule(("mysql", "mariadb"), _MYSQL, (" -p", '"-p', "'-p")),
    SecretRule(("ipmi",), _BMC, (" -p", '"-p', "'-p", " -k", '"-k', "'-k", " -y", '"-y', "'-y")),
    SecretRule(("ipmi",), _BMC_SET_PATTERN, ("set password",)),
    SecretRule(("pass",), _HTPASSWD_PATTERN, ("htpasswd -",)),
    SecretRule(("zip",), _ZIP, (" -p",)),
    SecretRule(("7z",), _SEVEN, (" -p",)),
    SecretRule(("useradd", "usermod"), _NEW_USER, (" -p",)),
    SecretRule(("snmp",), _SNMP_USER, (" -a", " -x", " -c")),
    SecretRule(("curl",), _CURL_COOKIE, (" -b", "--cookie")),
    SecretRule(("racadm", "ipmi", "redfish", "mongo", "sshfs", "pass"), _RACADM, (" -p", '"-p', "'-p")),
    SecretRule(("-cli",), _REDIS, ("redis-cli", "keydb-cli", "valkey-cli")),
    SecretRule(("ldap",), _LDAP, (" -w", '"-w', "'-w")),
    SecretRule(("openssl",), _OPENSSL),
    SecretRule(("mc alias", '"alias"'), _STORE),
    SecretRule(("curl", "lftp", "smbclient", "wget"), _USER_PATTERN, ("-u", "u ", "--user", "--proxy")),
    SecretRule(("key",), _SET_PATTERN, ("configure set", "config ")),
    SecretRule(READER_NEEDLES, _ECHO_PATTERN, ("echo", "printf")),
    SecretRule(READER_NEEDLES, _HERE_PATTERN, ("<<<",)),
    SecretRule(("pass",), _NETRC_PATTERN, ("machine", "default")),
    SecretRule(("pass", "masterauth", "bindpw", "rootpw"), _DIRECTIVE_PATTERN),
    SecretRule(("pass",), _PASS_LINE_PATTERN, ("=",)),
    SecretRule(_SAYS_PASSWORD, _SAID_PATTERN),
    SecretRule(_SAYS_PASSWORD, _SAID_OF_PATTERN, _VERBS),
    SecretRule(_SAYS_PASSWORD, _AS_PASSWORD_PATTERN, (" is ", " as ", " ist ", " als ", " comme ", " como ")),
    SecretRule(_SAYS_PASSWORD, _PROMPT_PATTERN, (": ",)),
    *(SecretRule((name,), _BRACKETED_PATTERN, tuple(f"{name}{opens}" for opens in ("[", "(", " [", " ("))) for name in _PROMPT_NAMES),
    *(
        SecretRule((name,), _SPACED_PATTERN, tuple(f"{name}{sign}" for sign in (":", "=", " :", " =", " 0:", " 0 :")))
        for name in ("key", "token", "secret")
    ),
    SecretRule(("pass",), _LOGFMT_PATTERN, ("pass=",)),
    SecretRule(("pass",), _USER_LOGFMT_PATTERN, ("pass=",)),
    SecretRule(("pass",), _YAML_PASS_PATTERN, (" pass:", "\tpass:")),
    SecretRule(("pass", "assword", "assphrase"), _SEND_PATTERN, ("send",)),
    SecretRule(_LOGIN_NAMES, _LOGIN_PAIR_PATTERN, _LOGIN_WORDS),
    SecretRule(("net use",), _NET_USE_PATTERN),
    SecretRule((" pass:", " pw:", " p:"), _USER_COLON_PATTERN, ("user", "login", "u:")),
    SecretRule(("mdp", "clave", "senha", "has?o", "haslo", "heslo", "lozinka", "salasana", "jelsz?"), _ELSEWHERE_PATTERN, (":", "=")),
    *(
        SecretRule((name,), _LABELLED_PATTERN, tuple(f"{name}{ends}" for ends in ("] ", ") ", "']", '"]', "',", '",')))
        for name in ("password", "passwd", "pwd", "token", "secret", "key")
    ),
    SecretRule(("auth",), _TUPLE_PATTERN, ("auth=(", "auth = (")),
    SecretRule(("jsessionid", "phpsessid", "sessionid=", "connect.sid"), _SESSION_PATTERN),
    SecretRule(("freerdp", "mstsc", "rdesktop"), _RDP_PATTERN),
    SecretRule(("winexe", "rpcclient", "smbget", "wmic"), _PERCENT_PATTERN, ("%",)),
    SecretRule(
        ("enable secret", "username ", "-server ", "plain-text-password", "message-digest-key", "neighbor "),
        _SWITCH_PATTERN,
        ("secret ", "password ", " key ", " auth ", " priv ", "-value ", " md0 "),
    ),
    SecretRule(("vault kv", "vault write"), _KV_PUT_PATTERN),
    SecretRule(('"kty"',), _JWK_PATTERN),
    SecretRule(("wpa_passphrase",), _WPA_PATTERN),
    SecretRule(("sqlcmd", "psexec", "paexec", "osql"), _SQLCMD, (" -p",)),
    SecretRule(("auth ", 'auth"'), _AUTH_PATTERN),
    SecretRule(("secret",), _K8S_LITERAL_PATTERN, ("--from-literal",)),
    SecretRule(("creds", "auth", "credentials", "user-pass"), _PAIR_OPTION_PATTERN, ("-creds", "-auth", "-credentials", "-user-pass")),
    SecretRule(("pass",), _HASH_USER_PATTERN, ("chpasswd",)),
    SecretRule(("token", "key", "secret"), _SAID_KEY_PATTERN, ("token ", "key ", "secret ")),
    SecretRule((":5432:", ":*:"), _PGPASS_PATTERN),
    SecretRule(("community",), _SNMP_PATTERN),
    SecretRule(("community",), _COMMUNITY_PATTERN),
    SecretRule((":::",), _SHADOW_PATTERN),
    SecretRule(("identified",), _SQL_PATTERN),
    SecretRule(_NAMED, _CELL_PATTERN, ("|", "?")),
    SecretRule(_NAMED, _ARROW_PATTERN, ("->", "?")),
    SecretRule(_NAMED, _TWO_CELLS_PATTERN, (",",)),
    SecretRule(("creds", "credential"), _CREDS_PATTERN, ("/", ":")),
    SecretRule(("pass",), _CISCO_PATTERN, ("password 0",)),
    SecretRule(("token ",), _JOIN_PATTERN, (".",)),
    SecretRule(("akia", "asia"), _AWS_PAIR_PATTERN),
)
