//! The tokens of service accounts: JSON Web Tokens that the server signs with a key of its own.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use model::Moment;
use ring::digest;
use ring::error::Unspecified;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, UnparsedPublicKey,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::user::{AUTHENTICATED, UserInfo, service_account_groups};

/// The issuer of a cluster's tokens, which is also the audience of its API server.
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// Signs the tokens of service accounts, and recognizes them.
pub struct TokenSigner {
    key: EcdsaKeyPair,
    random: SystemRandom,
    /// The name of the key: a hash of its public part.
    key_id: String,
}

/// What a token says, with the names of its fields as in Kubernetes.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Claims {
    #[serde(rename = "aud")]
    pub(crate) audiences: Vec<String>,
    /// In seconds since 1970, as all times here.
    #[serde(rename = "exp")]
    pub(crate) expires: i64,
    #[serde(rename = "iat")]
    pub(crate) issued: i64,
    #[serde(rename = "iss")]
    pub(crate) issuer: String,
    /// The id of the token.
    #[serde(rename = "jti")]
    pub(crate) id: String,
    #[serde(rename = "kubernetes.io")]
    pub(crate) kubernetes: KubernetesClaims,
    #[serde(rename = "nbf")]
    pub(crate) not_before: i64,
    #[serde(rename = "sub")]
    pub(crate) subject: String,
}

/// The objects that a token belongs to.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct KubernetesClaims {
    pub(crate) namespace: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<ClaimedObject>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pod: Option<ClaimedObject>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) secret: Option<ClaimedObject>,
    pub(crate) serviceaccount: ClaimedObject,
}

/// An object without which a token is not valid.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct ClaimedObject {
    pub(crate) name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) uid: String,
}

// === impl TokenSigner ===

impl TokenSigner {
    /// Generates a key.
    pub fn generate() -> Result<TokenSigner, Unspecified> {
        let random = SystemRandom::new();
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random)?;
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8.as_ref(), &random)
            .map_err(|_| Unspecified)?;
        let key_id = encode(digest::digest(&digest::SHA256, key.public_key().as_ref()).as_ref());
        Ok(TokenSigner { key, random, key_id })
    }

    /// The token that says this.
    pub(crate) fn sign(&self, claims: &Claims) -> Result<String, Unspecified> {
        let header = json!({"alg": "ES256", "kid": self.key_id});
        let claims = serde_json::to_vec(claims).map_err(|_| Unspecified)?;
        let mut token = format!("{}.{}", encode(header.to_string().as_bytes()), encode(&claims));
        let signature = self.key.sign(&self.random, token.as_bytes())?;
        token.push('.');
        token.push_str(&encode(signature.as_ref()));
        Ok(token)
    }

    /// What a token says, if it was signed here and is valid at a moment. Whether its objects still exist is not
    /// checked.
    pub(crate) fn verify(&self, token: &str, now: Moment) -> Option<Claims> {
        let (signed, signature) = token.rsplit_once('.')?;
        let (_, claims) = signed.split_once('.')?;
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.key.public_key().as_ref());
        key.verify(signed.as_bytes(), &decode(signature)?).ok()?;
        let claims: Claims = serde_json::from_slice(&decode(claims)?).ok()?;
        (claims.not_before..claims.expires).contains(&seconds(now)).then_some(claims)
    }

    /// The public key as a JSON Web Key Set, with which others verify tokens.
    pub(crate) fn key_set(&self) -> Value {
        // An uncompressed point: 4, x and y.
        let point = self.key.public_key().as_ref();
        let (x, y) = point[1..].split_at(point.len() / 2);
        json!({"keys": [{
            "use": "sig", "kty": "EC", "kid": self.key_id, "crv": "P-256", "alg": "ES256",
            "x": encode(x), "y": encode(y),
        }]})
    }
}

impl std::fmt::Debug for TokenSigner {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("TokenSigner").field("key_id", &self.key_id).finish_non_exhaustive()
    }
}

// === impl Claims ===

impl Claims {
    /// The service account as a user.
    pub(crate) fn user(&self) -> UserInfo {
        let KubernetesClaims { namespace, node, pod, serviceaccount, .. } = &self.kubernetes;
        let mut extra = Vec::new();
        let mut add = |name: &str, value: String| {
            extra.push((format!("authentication.kubernetes.io/{name}"), vec![value]));
        };
        add("credential-id", format!("JTI={}", self.id));
        if let Some(node) = node {
            add("node-name", node.name.clone());
            if !node.uid.is_empty() {
                add("node-uid", node.uid.clone());
            }
        }
        if let Some(pod) = pod {
            add("pod-name", pod.name.clone());
            add("pod-uid", pod.uid.clone());
        }
        let mut groups = service_account_groups(namespace);
        groups.push(AUTHENTICATED.to_owned());
        UserInfo { username: self.subject.clone(), uid: Some(serviceaccount.uid.clone()), groups, extra }
    }
}

/// The description of the issuer at `/.well-known/openid-configuration`.
pub(crate) fn openid_configuration() -> Value {
    json!({
        "issuer": ISSUER, "jwks_uri": format!("{ISSUER}/openid/v1/jwks"), "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"], "id_token_signing_alg_values_supported": ["ES256"],
    })
}

/// Whole seconds since 1970.
pub(crate) fn seconds(moment: Moment) -> i64 {
    moment.nanos().div_euclid(1_000_000_000)
}

fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn decode(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims() -> Claims {
        let account = ClaimedObject { name: "builder".to_owned(), uid: "u1".to_owned() };
        Claims {
            audiences: vec![ISSUER.to_owned()],
            expires: 4_600,
            issued: 1_000,
            issuer: ISSUER.to_owned(),
            id: "t1".to_owned(),
            kubernetes: KubernetesClaims {
                namespace: "ci".to_owned(),
                node: None,
                pod: None,
                secret: None,
                serviceaccount: account,
            },
            not_before: 1_000,
            subject: "system:serviceaccount:ci:builder".to_owned(),
        }
    }

    fn at(seconds: i64) -> Moment {
        Moment::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn a_token_is_valid_until_it_expires() {
        let signer = TokenSigner::generate().unwrap();
        let token = signer.sign(&claims()).unwrap();
        assert_eq!(signer.verify(&token, at(1_000)), Some(claims()));
        assert_eq!(signer.verify(&token, at(4_599)), Some(claims()));
        assert_eq!(signer.verify(&token, at(999)), None);
        assert_eq!(signer.verify(&token, at(4_600)), None);
    }

    #[test]
    fn tokens_of_other_keys_and_changed_ones_are_not_recognized() {
        let signer = TokenSigner::generate().unwrap();
        let token = signer.sign(&claims()).unwrap();
        assert_eq!(TokenSigner::generate().unwrap().verify(&token, at(2_000)), None);
        let other = Claims { subject: "system:serviceaccount:ci:admin".to_owned(), ..claims() };
        let parts: Vec<&str> = token.split('.').collect();
        let changed = [parts[0], &encode(&serde_json::to_vec(&other).unwrap()), parts[2]].join(".");
        assert_eq!(signer.verify(&changed, at(2_000)), None);
        let unsigned = [&encode(br#"{"alg":"none"}"#), parts[1], ""].join(".");
        for text in ["", ".", "..", "a.b.c", parts[1], &unsigned] {
            assert_eq!(signer.verify(text, at(2_000)), None, "{text:?}");
        }
    }

    #[test]
    fn a_service_account_is_a_user_of_its_groups() {
        let user = claims().user().to_json();
        assert_eq!(
            user,
            json!({
                "username": "system:serviceaccount:ci:builder", "uid": "u1",
                "groups": ["system:serviceaccounts", "system:serviceaccounts:ci", "system:authenticated"],
                "extra": {"authentication.kubernetes.io/credential-id": ["JTI=t1"]},
            })
        );
    }
}
